/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name; /* "" for a bare number */
	double factor;
};

/* Returns where the number ends, or NULL when there is none. */
static const char *parse_number(const char *at, double *value)
{
	double place = 0;
	bool any_digit = false;

	*value = 0;
	for (;; at++) {
		if (*at == '.' && place == 0) {
			place = 1;
		} else if (*at >= '0' && *at <= '9') {
			any_digit = true;
			*value = *value * 10 + (*at - '0');
			place *= 10;
		} else {
			break;
		}
	}
	if (place > 1)
		*value /= place;
	return any_digit ? at : NULL;
}

/* False when it is no number, or its unit is not in the table. */
static bool parse_quantity(
	const char *text, const struct unit *units, size_t count, bool any_case, double *value)
{
	double number = 0;
	const char *const name = parse_number(text, &number);

	for (size_t i = 0; name != NULL && i < count; i++) {
		if ((any_case ? strcasecmp : strcmp)(units[i].name, name) == 0) {
			*value = number * units[i].factor;
			return true;
		}
	}
	return false;
}

/* In milliseconds. */
static const struct unit times[] = {
	{ "", 1e3 }, /* bare numbers are seconds: Mesos' documented script passes them */
	{ "ns", 1e-6 },
	{ "us", 1e-3 },
	{ "ms", 1 },
	{ "s", 1e3 },
	{ "sec", 1e3 },
	{ "secs", 1e3 },
	{ "second", 1e3 },
	{ "seconds", 1e3 },
	{ "m", 60e3 },
	{ "min", 60e3 },
	{ "mins", 60e3 },
	{ "minute", 60e3 },
	{ "minutes", 60e3 },
	{ "h", 3600e3 },
	{ "hr", 3600e3 },
	{ "hrs", 3600e3 },
	{ "hour", 3600e3 },
	{ "hours", 3600e3 },
	{ "d", 86400e3 },
	{ "day", 86400e3 },
	{ "days", 86400e3 },
	{ "week", 604800e3 },
	{ "weeks", 604800e3 },
};

bool duration_parse(const char *text, int64_t *duration_ms, struct error *err)
{
	double milliseconds = 0;

	if (!parse_quantity(text, times, sizeof times / sizeof *times, false, &milliseconds)) {
		error_set(err, ERROR_USAGE, "'%.40s' is not a duration", text);
		return error_hint(err, "write a number and a unit: 30s, 5mins, 1.5hrs, 600");
	}
	if (!(milliseconds < 9e15))
		return error_set(err, ERROR_USAGE, "the duration '%.40s' is too long", text);
	*duration_ms = (int64_t)(milliseconds + 0.5);
	return true;
}

bool duration_parse_run(const char *text, int64_t *duration_ms, struct error *err)
{
	int64_t parsed = 0;

	if (!duration_parse(text, &parsed, err))
		return false;
	if (parsed < DURATION_MIN_RUN_MS || parsed > DURATION_MAX_RUN_MS) {
		error_set(err, ERROR_USAGE, "a run cannot last '%.40s'", text);
		return error_hint(err, "choose from 1 second to 24 hours");
	}
	*duration_ms = parsed;
	return true;
}

const char *duration_format(int64_t duration_ms, char text[DURATION_TEXT_BYTES])
{
	const long long seconds = duration_ms / 1000;
	const size_t size = DURATION_TEXT_BYTES;

	if (duration_ms < 10000 && duration_ms % 1000 != 0)
		snprintf(text, size, "%.1f s", (double)duration_ms / 1e3);
	else if (seconds < 60)
		snprintf(text, size, "%lld s", seconds);
	else if (seconds < 3600 && seconds % 60 == 0)
		snprintf(text, size, "%lld min", seconds / 60);
	else if (seconds < 3600)
		snprintf(text, size, "%lld min %lld s", seconds / 60, seconds % 60);
	else if (seconds % 3600 < 60)
		snprintf(text, size, "%lld h", seconds / 3600);
	else
		snprintf(text, size, "%lld h %lld min", seconds / 3600, seconds % 3600 / 60);
	return text;
}

static const struct unit sizes[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "K", 1024 },
	{ "KiB", 1024 },
	{ "kB", 1e3 },
	{ "M", 1048576 },
	{ "MiB", 1048576 },
	{ "MB", 1e6 },
	{ "G", 1073741824 },
	{ "GiB", 1073741824 },
	{ "GB", 1e9 },
	{ "T", 1099511627776 },
	{ "TiB", 1099511627776 },
	{ "TB", 1e12 },
};

bool byte_size_parse(const char *text, uint64_t *bytes, struct error *err)
{
	double value = 0;

	if (!parse_quantity(text, sizes, sizeof sizes / sizeof *sizes, true, &value)) {
		error_set(err, ERROR_USAGE, "'%.40s' is not an amount of memory", text);
		return error_hint(err, "write a number and a unit: 512MiB, 2GiB, 4096");
	}
	if (!(value < 9e18))
		return error_set(err, ERROR_USAGE, "'%.40s' is too much", text);
	*bytes = (uint64_t)(value + 0.5);
	return true;
}

void byte_size_format(uint64_t bytes, char text[BYTE_SIZE_TEXT_BYTES])
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned unit = 0;

	while (unit + 1 < sizeof names / sizeof names[0] && bytes >> (10 * (unit + 1)) != 0)
		unit++;
	const uint64_t whole = bytes >> (10 * unit);
	const uint64_t rest = unit == 0 ? 0 : bytes >> (10 * (unit - 1)) & 1023;
	const unsigned tenths = (unsigned)(rest * 10 / 1024);
	if (tenths == 0)
		snprintf(text, BYTE_SIZE_TEXT_BYTES, "%llu %s", (unsigned long long)whole,
			names[unit]);
	else
		snprintf(text, BYTE_SIZE_TEXT_BYTES, "%llu.%u %s", (unsigned long long)whole,
			tenths, names[unit]);
}
