/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory figures of a target over the last hour, kept only while somebody watches: asking for
 * the history is what takes the next sample, so nobody's server is polled for nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/json_writer.h"

enum {
	HISTORY_SAMPLES_MAX = 3600,
	HISTORY_STEP_MS = 1000, /* samples are at least this far apart */
};

/* In the order of the agent's status; the resident set of the kernel comes last. */
enum history_figure {
	HISTORY_ALLOCATED,
	HISTORY_ACTIVE,
	HISTORY_METADATA,
	HISTORY_RESIDENT,
	HISTORY_MAPPED,
	HISTORY_RETAINED,
	HISTORY_RSS,
	HISTORY_FIGURES,
};

extern const char *const history_figure_names[HISTORY_FIGURES];

struct history_sample {
	int64_t time_ms; /* since 1970 */
	uint64_t bytes[HISTORY_FIGURES];
};

struct history {
	struct history_sample *samples; /* a ring; NULL while nobody watches */
	size_t count;
	size_t next;
};

void history_deinit(struct history *history);

/* Whether the last sample is old enough for another one. */
bool history_is_due(const struct history *history, int64_t now_ms);
void history_add(struct history *history, const struct history_sample *sample);

/* {"figures": [...], "samples": [[time_ms, bytes...], ...]} with what is newer than `since_ms`. */
void history_write(const struct history *history, int64_t since_ms, struct json_writer *json);
