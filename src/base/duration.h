/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths of time as people write them: "30s", "5mins", "1.5hrs", "600" (seconds).
 *
 * The units are those of Mesos' stout (ns us ms secs mins hrs days weeks) and their usual short
 * and singular forms. Safe on the resident side.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The limits of a profiling run. */
#define DURATION_SHORTEST_RUN_MS INT64_C(1000)
#define DURATION_MAX_RUN_MS (INT64_C(24) * 3600 * 1000)
#define DURATION_DEFAULT_RUN_MS (INT64_C(5) * 60 * 1000)

/* ERROR_USAGE for a text that is no duration or one that does not fit. */
MUST_CHECK bool duration_parse(const char *text, int64_t *duration_ms, struct error *err);

/* The same, and refuses what lies outside 1 s to 24 h. */
MUST_CHECK bool duration_parse_run(const char *text, int64_t *duration_ms, struct error *err);

enum { DURATION_TEXT_BYTES = 32 };

/* "45 s", "5 min", "1 h 30 min": two units at most, for people. Returns `text`. */
const char *duration_format(int64_t duration_ms, char text[DURATION_TEXT_BYTES]);
