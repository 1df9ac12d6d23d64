/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic Server's metrics of this plugin: memory_profile.active, .dumps, .failures, .allocated,
 * .resident, .last_dump_bytes, .last_dump_ms. Sizes are bytes.
 *
 * Traffic Server keeps increments per event thread, so those of other threads are lost, or end the
 * server. Values are counted here and set, which works from every thread.
 */
#pragma once

#include <stdint.h>

#include "heapctl.h"

enum metric {
	METRIC_ACTIVE,
	METRIC_DUMPS,
	METRIC_FAILURES,
	METRIC_ALLOCATED,
	METRIC_RESIDENT,
	METRIC_LAST_DUMP_BYTES,
	METRIC_LAST_DUMP_MS,
	METRIC_COUNT,
};

struct metrics {
	int ids[METRIC_COUNT]; /* Traffic Server's; negative: refused */
	int64_t values[METRIC_COUNT];
};

/* In TSPluginInit. */
void metrics_create(struct metrics *metrics);

void metrics_add(struct metrics *metrics, enum metric metric, int64_t number);

/* The agent's figures. */
void metrics_set_status(struct metrics *metrics, const struct heapctl_status *status);
