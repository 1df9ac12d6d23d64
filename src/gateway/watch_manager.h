/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl serve --watch-file: reads the file, starts a watch (gateway/target_watch.h) for every
 * target that a section names, reassigns it when its target restarts, and reads the file again on
 * request. Any thread may ask for reports.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/gateway.h"
#include "gateway/target_watch.h"

enum { WATCH_ENTRIES_MAX = 256 };

struct watch_manager;

/* Reads the file. `gateway` has its store and backends by now, and outlives it. */
MUST_CHECK bool watch_manager_open(struct gateway *gateway, const char *path,
	struct watch_manager **watch_manager, struct error *err);

/* After the gateway's stop_fd became readable, or without a start: stops all watches. */
void watch_manager_close(struct watch_manager *watch_manager);

/* Begins to watch, on threads of its own. The gateway has its stop_fd by now. */
MUST_CHECK bool watch_manager_start(struct watch_manager *watch_manager, struct error *err);

/* Reads the file again. An error in it is logged and changes nothing. */
void watch_manager_reload(struct watch_manager *watch_manager);

/* Triggers `when = signal`. */
void watch_manager_signal(struct watch_manager *watch_manager);

struct watch_manager_state {
	char path[4096];
	int64_t read_ms;      /* when the file was read without an error, since 1970 */
	struct error problem; /* of the last attempt to read it again */
};

/* A report of each watch in `reports`, which the caller frees; returns their number. */
size_t watch_manager_report(struct watch_manager *watch_manager, struct watch_manager_state *state,
	struct watch_report **reports);
