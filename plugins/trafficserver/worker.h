/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's own thread: handles one message after another, reports the outcome of each in one
 * line, writes the profile of a timed run when it ends, and keeps the metrics up to date.
 */
#pragma once

#include "trafficserver/message.h"
#include "trafficserver/metrics.h"
#include "trafficserver/profile_file.h"

struct worker {
	struct queue queue;
	struct metrics metrics;
	struct profile_files files;
	int64_t run_id; /* a run whose profile has to be written at its end; 0 */
	/* Why there is no agent, which then answers every message; "" when there is one. */
	char problem[512];
};

/* For TSThreadCreate. Returns when the queue is closed. */
void *worker_main(void *worker);
