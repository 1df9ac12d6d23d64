/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit_number.h"

#include <string.h>
#include <strings.h>

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

bool unit_number_parse(
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
