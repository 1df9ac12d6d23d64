/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `heapctl send --follow` tells the `heapctl serve` that started it: a line of JSON for each
 * change, to a pipe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct send_report {
	int fd; /* -1: there is no reader */
	size_t sent_count, known_count, skipped_count;
	int64_t reading; /* the id of the snapshot that is being read; 0: none */
};

/* Nothing is left to follow once the reader has ended: from now on that ends this process. */
void send_report_begin(const struct send_report *report);

/* `why` is the reason for a wait of so long; NULL: there is none. */
void send_report_write(const struct send_report *report, int64_t wait_ms, const struct error *why);
