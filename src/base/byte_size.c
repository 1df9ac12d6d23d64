/* SPDX-License-Identifier: Apache-2.0 */
#include "base/byte_size.h"

#include <stdio.h>

#include "base/unit_number.h"

static const struct unit units[] = {
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

	if (!unit_number_parse(text, units, sizeof units / sizeof *units, true, &value)) {
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
