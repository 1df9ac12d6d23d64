/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations and amounts of memory as people write them: decimal digits with at most one point, and
 * a unit. (strtod would take the locale's comma, "inf" and hexadecimal.) Safe on the resident side.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* The limits of a profiling run. */
#define DURATION_MIN_RUN_MS INT64_C(1000)
#define DURATION_MAX_RUN_MS (INT64_C(24) * 3600 * 1000)
#define DURATION_DEFAULT_RUN_MS (INT64_C(5) * 60 * 1000)

/*
 * "30s", "5mins", "1.5hrs", "600" (seconds): the units of Mesos' stout (ns us ms secs mins hrs days
 * weeks) and their usual short and singular forms. ERROR_USAGE for a text that is no duration or
 * one that does not fit.
 */
MUST_CHECK bool duration_parse(const char *text, int64_t *duration_ms, struct error *err);

/* The same, and refuses what lies outside 1 s to 24 h. */
MUST_CHECK bool duration_parse_run(const char *text, int64_t *duration_ms, struct error *err);

enum { DURATION_TEXT_BYTES = 32 };

/* "45 s", "5 min", "1 h 30 min": two units at most, for people. Returns `text`. */
const char *duration_format(int64_t duration_ms, char text[DURATION_TEXT_BYTES]);

/*
 * "512", "64K", "2GiB", "1.5GB": K, M, G and T count in 1024 as KiB and its like do; kB, MB, GB and
 * TB in 1000. ERROR_USAGE for a text that is no amount, or one that does not fit.
 */
MUST_CHECK bool byte_size_parse(const char *text, uint64_t *bytes, struct error *err);

enum { BYTE_SIZE_TEXT_BYTES = 24 };

/* "512 MiB", "1.5 GiB", "3 B": in the largest unit of which there is one. */
void byte_size_format(uint64_t bytes, char text[BYTE_SIZE_TEXT_BYTES]);
