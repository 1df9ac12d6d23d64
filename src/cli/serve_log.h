/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of heapctl serve: one line to standard error for each event, with its time.
 * A line that comes again and again, as of a target that hangs, is written five times a minute,
 * with how often it came. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SERVE_LOG_LINE_BYTES = 1200 };

void serve_log(const char *line);

/*
 * What to write for the line at that time (on a monotonic clock), with
 * how often it was held back; "" for nothing. One thread at a time.
 */
void serve_log_filter(const char *line, int64_t monotonic_ms, char text[SERVE_LOG_LINE_BYTES]);
