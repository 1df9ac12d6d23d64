/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory figures of a target over the last hour, kept only while somebody watches: asking for
 * the history is what takes the next sample, so nobody's server is polled for nothing. A *miss* is
 * a sample that could not be taken, and why. (What serve --history keeps is store/store.h.)
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/json_writer.h"
#include "gateway/memory_figures.h"

enum {
	HISTORY_SAMPLES_MAX = 3600,
	HISTORY_STEP_MS = 1000, /* samples are at least this far apart */
	HISTORY_MISSES_MAX = 64,
};

struct history_sample {
	int64_t time_ms; /* since 1970 */
	uint64_t bytes[FIGURES];
};

struct history_miss {
	int64_t time_ms;
	char reason[200];
};

struct history {
	struct history_sample *samples; /* a ring; NULL while nobody watches */
	size_t count;
	size_t next;
	struct history_miss *misses; /* a ring; NULL before the first */
	size_t miss_count;
	size_t miss_next;
};

void history_deinit(struct history *history);

/* Whether the last sample is old enough for another one. */
bool history_is_due(const struct history *history, int64_t now_ms);
void history_add(struct history *history, const struct history_sample *sample);

/* Of misses in a row for the same reason the first is kept. */
void history_add_miss(struct history *history, int64_t time_ms, const char *reason);

/*
 * {"figures": [...], "samples": [[time_ms, bytes...], ...], "misses": [[time_ms, reason], ...]}
 * with what is newer than `since_ms`.
 */
void history_write(const struct history *history, int64_t since_ms, struct json_writer *json);
