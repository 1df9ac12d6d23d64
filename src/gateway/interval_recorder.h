/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of the gateway that puts a profile and the memory figures of every target into the
 * store, at once and then at intervals. A target that cannot be profiled is skipped; one that hangs
 * delays no other.
 */
#pragma once

#include "store/store.h"
#include "gateway/gateway.h"

struct interval_recorder;

/* The gateway, with its stop_fd, must outlive it. */
MUST_CHECK bool interval_recorder_start(struct gateway *gateway, int64_t every_ms,
	struct interval_recorder **recorder, struct error *err);

/* After stop_fd became readable: waits for its end. NULL is fine. */
void interval_recorder_join(struct interval_recorder *recorder);

/* Keeps a snapshot of the target now, for that reason. Any thread. */
MUST_CHECK bool interval_recorder_keep(struct gateway *gateway, struct backend *backend,
	const char *reason, struct snapshot *snapshot, struct error *err);
