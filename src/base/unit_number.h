/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A number and a unit as people write them: "1.5hrs", "64MiB". Decimal digits with at most one
 * point; strtod would take the locale's comma, "inf" and hexadecimal. Safe on the resident side.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct unit {
	const char *name; /* "" for a bare number */
	double factor;
};

/* False when it is no number, or its unit is not in the table. */
bool unit_number_parse(
	const char *text, const struct unit *units, size_t count, bool any_case, double *value);
