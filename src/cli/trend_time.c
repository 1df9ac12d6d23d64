/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trend_time.h"

#include <string.h>
#include <time.h>

/* The end of a run and the name of its file may lie apart by its length, which differs little. */
enum { MOST_DRIFT_MS = 60 * 1000, MOMENT_SIZE = 15 };

static bool take_number(const char *digits, int count, int least, int most, int *ret)
{
	*ret = 0;
	for (int i = 0; i < count; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return false;
		*ret = *ret * 10 + (digits[i] - '0');
	}
	return *ret >= least && *ret <= most;
}

/* "20261121-101500" or "20261121T101500Z". */
static int64_t read_moment(const char *text)
{
	struct tm parts = { .tm_isdst = -1 };
	const bool is_universal = text[8] == 'T' && text[MOMENT_SIZE] == 'Z';

	if ((text[8] != '-' && !is_universal) ||
		!take_number(text, 4, 1970, 9999, &parts.tm_year) ||
		!take_number(text + 4, 2, 1, 12, &parts.tm_mon) ||
		!take_number(text + 6, 2, 1, 31, &parts.tm_mday) ||
		!take_number(text + 9, 2, 0, 23, &parts.tm_hour) ||
		!take_number(text + 11, 2, 0, 59, &parts.tm_min) ||
		!take_number(text + 13, 2, 0, 60, &parts.tm_sec))
		return 0;
	parts.tm_year -= 1900;
	parts.tm_mon--;
	const time_t seconds = is_universal ? timegm(&parts) : mktime(&parts);
	return seconds <= 0 ? 0 : (int64_t)seconds * 1000;
}

int64_t trend_time_in_name(const char *path)
{
	const char *const slash = strrchr(path, '/');
	const char *const name = slash == NULL ? path : slash + 1;
	const size_t size = strlen(name);
	int64_t moment_ms = 0;

	/* The last one: what stands before is the program's name, which may be anything. */
	for (size_t at = 1; at + MOMENT_SIZE < size; at++) {
		const bool begins = name[at - 1] == '.' || name[at - 1] == '-';
		const int64_t here_ms = begins ? read_moment(name + at) : 0;
		moment_ms = here_ms != 0 ? here_ms : moment_ms;
	}
	return moment_ms;
}

/* A constant difference is a time zone, or the length of runs. */
static bool names_differ(const struct trend_time *times, size_t count)
{
	int64_t least = 0, most = 0;

	for (size_t i = 0; i < count; i++) {
		const int64_t late_ms = times[i].file_ms - times[i].named_ms;
		if (times[i].named_ms == 0)
			return false;
		least = i == 0 || late_ms < least ? late_ms : least;
		most = i == 0 || late_ms > most ? late_ms : most;
	}
	return most - least > MOST_DRIFT_MS;
}

bool trend_time_set(struct series *series, const struct trend_time *times, size_t count)
{
	const bool by_name = names_differ(times, count);

	for (size_t i = 0; i < count; i++)
		series->profiles[times[i].profile].time_ms =
			by_name ? times[i].named_ms : times[i].file_ms;
	return by_name;
}
