/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders that the gateway's watches keep their captures in: several watches may share one, and
 * one that is no longer used is closed. Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

struct watch_folders {
	pthread_mutex_t mutex;
	struct watch_folder *items;
};

void watch_folders_init(struct watch_folders *folders);

/* After the last one was given back. */
void watch_folders_deinit(struct watch_folders *folders);

/* Makes it when it is not there; the last caller sets the limits. Give it back. */
MUST_CHECK bool watch_folders_take(struct watch_folders *folders, const char *path,
	const struct store_limits *limits, struct store **store, struct error *err);

/* NULL is fine. */
void watch_folders_give(struct watch_folders *folders, struct store *store);
