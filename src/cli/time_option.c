/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time_option.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"

/* As of date(1): "@1795428000". */
static bool parse_seconds(const char *text, int64_t *time_ms)
{
	char *end = NULL;

	if (text[0] != '@' || text[1] < '0' || text[1] > '9' || strlen(text) > 12)
		return false;
	*time_ms = strtoll(text + 1, &end, 10) * 1000;
	return *end == '\0' && *time_ms > 0;
}

bool time_option_parse(int64_t now_ms, const char *text, int64_t *time_ms, struct error *err)
{
	static const char *const formats[] = { "%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S" };
	int64_t ago_ms = 0;

	if (parse_seconds(text, time_ms))
		return true;
	for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
		struct tm parts = { .tm_isdst = -1 };
		const char *const end = strptime(text, formats[i], &parts);
		const int day = parts.tm_mday;
		const time_t seconds = end != NULL && *end == '\0' ? mktime(&parts) : -1;
		/* mktime(3) makes the 2nd of March of a 30th of February. */
		if (seconds > 0 && parts.tm_mday == day) {
			*time_ms = (int64_t)seconds * 1000;
			return true;
		}
	}
	if (!duration_parse(text, &ago_ms, err)) {
		error_set(err, ERROR_USAGE, "\"%.40s\" is no time", text);
		return error_hint(
			err, "write 2hrs, 2026-11-23, 2026-11-23T10:00 or @SECONDS since 1970");
	}
	*time_ms = now_ms - ago_ms;
	return *time_ms > 0 || error_set(err, ERROR_USAGE, "%.40s ago was before 1970", text);
}
