/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"

#include <stdio.h>

#include "base/unit_number.h"

/* In milliseconds. */
static const struct unit units[] = {
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

	if (!unit_number_parse(text, units, sizeof units / sizeof *units, false, &milliseconds)) {
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
	if (parsed < DURATION_SHORTEST_RUN_MS || parsed > DURATION_MAX_RUN_MS) {
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
