/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl serve --watch-file: reads the file, posts a watch (gateway/watch_post.h) at every target
 * that a section names, sends it after its target through restarts, and reads the file again when
 * it is told to. Any thread may ask for reports.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/gateway.h"
#include "gateway/watch_post.h"

enum { WATCHMAN_POSTS_MAX = 256 };

struct watchman;

/* Reads the file. `gateway` has its store and backends by now, and outlives it. */
MUST_CHECK bool watchman_open(
	struct gateway *gateway, const char *path, struct watchman **watchman, struct error *err);

/* After the gateway's stop_fd became readable, or without a start: ends all watches. */
void watchman_close(struct watchman *watchman);

/* Begins to watch, on threads of its own. The gateway has its stop_fd by now. */
MUST_CHECK bool watchman_start(struct watchman *watchman, struct error *err);

/* Reads the file again. One that is wrong changes nothing but what the log says. */
void watchman_reload(struct watchman *watchman);

/* What `when = signal` waits for. */
void watchman_signal(struct watchman *watchman);

struct watchman_state {
	char path[4096];
	int64_t read_ms;      /* when the file was read without an error, since 1970 */
	struct error problem; /* of the last attempt to read it again */
};

/* A report of each watch in `reports`, which the caller frees; returns their number. */
size_t watchman_report(
	struct watchman *watchman, struct watchman_state *state, struct watch_report **reports);
