/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Perl regular expression, compiled once. One that takes too long on some text is an error, not a
 * hang.
 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/error.h"

struct pattern;

/* ERROR_USAGE says where in the text what is wrong. */
MUST_CHECK bool pattern_new(const char *text, struct pattern **ret, struct error *err);
void pattern_free(struct pattern *pattern);

DEFINE_CLEANUP(pattern_cleanup, struct pattern *, pattern_free)

/* Whether it occurs anywhere in the text. False after it exceeded its limits: see pattern_check. */
bool pattern_matches(struct pattern *pattern, const char *text);

/* ERROR_USAGE when the pattern exceeded its limits on some text. */
MUST_CHECK bool pattern_check(const struct pattern *pattern, struct error *err);
