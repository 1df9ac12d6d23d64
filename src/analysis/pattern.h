/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perl regular expressions, compiled once. A pattern that would take too long on some text (there
 * are such) is an error, not a hang.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct pattern;

/* ERROR_USAGE says where in the text what is wrong. */
MUST_CHECK bool pattern_new(const char *text, struct pattern **ret, struct error *err);
void pattern_free(struct pattern *pattern);

static inline void pattern_cleanup(struct pattern **pattern)
{
	pattern_free(*pattern);
}

/* Whether it occurs anywhere in the text. False once it went over its limits: pattern_check. */
bool pattern_matches(struct pattern *pattern, const char *text);

/* ERROR_USAGE when some text was too much for the pattern. */
MUST_CHECK bool pattern_check(const struct pattern *pattern, struct error *err);
