/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory figures of a target over the last hour. Each request for them takes the next sample,
 * so a target that no page shows is not polled. A *miss* is a sample that could not be taken, and
 * the reason. (What serve --history keeps is in store/.)
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/json_writer.h"
#include "store/store.h"

enum {
	LIVE_METRICS_SAMPLES_MAX = 3600,
	LIVE_METRICS_STEP_MS = 1000, /* samples are at least this far apart */
	LIVE_METRICS_MISSES_MAX = 64,
};

struct live_sample {
	int64_t time_ms; /* since 1970 */
	uint64_t bytes[FIGURES];
};

struct live_miss {
	int64_t time_ms;
	char reason[200];
};

struct live_metrics {
	struct live_sample *samples; /* a ring; NULL before the first */
	size_t count;
	size_t next;
	struct live_miss *misses; /* a ring; NULL before the first */
	size_t miss_count;
	size_t miss_next;
};

void live_metrics_deinit(struct live_metrics *history);

/* Whether the last sample is old enough for another one. */
bool live_metrics_is_due(const struct live_metrics *history, int64_t now_ms);
void live_metrics_add(struct live_metrics *history, const struct live_sample *sample);

/* Of misses in a row for the same reason the first is kept. */
void live_metrics_add_miss(struct live_metrics *history, int64_t time_ms, const char *reason);

/*
 * {"figures": [...], "samples": [[time_ms, bytes...], ...], "misses": [[time_ms, reason], ...]}
 * with what is newer than `since_ms`.
 */
void live_metrics_write(
	const struct live_metrics *history, int64_t since_ms, struct json_writer *json);
