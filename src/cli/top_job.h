/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of `heapctl top` to its target, in a separate thread: a target that hangs, or a
 * program whose symbols take a minute, must not keep the keys waiting. One job at a time.
 */
#pragma once

#include <stdbool.h>

#include "cli/top_snapshot.h"

enum top_switch {
	TOP_SWITCH_LEAVE,
	TOP_SWITCH_ON,
	TOP_SWITCH_OFF,
};

struct top_request {
	const char *operand; /* a target that was restarted is found under it */
	bool is_tree;	     /* the operand is TARGET:*, and `target` is of no use */
	struct target target;
	enum top_switch sampling; /* before the snapshot */
	bool wants_snapshot;
	enum stack_pruning pruning; /* of that snapshot */
};

struct top_result {
	struct target target; /* the one that answered */
	bool has_snapshot;    /* `snapshot` is the caller's */
	struct top_snapshot snapshot;
	struct error snapshot_err; /* why there is no snapshot, if one was wanted */
	bool has_switched;
	struct error switch_err; /* if it was wanted and failed */
};

struct top_job;

MUST_CHECK bool top_job_start(
	const struct top_request *request, struct top_job **job, struct error *err);

/* A descriptor that can be read once the job is done. */
int top_job_fd(const struct top_job *job);

/* Waits for the end and frees the job. */
void top_job_finish(struct top_job *job, struct top_result *result);

/*
 * Ends the waiting for the target. False when the job was still busy for longer than a key
 * may take: its thread still runs, and the program has to end by _exit.
 */
bool top_job_cancel(struct top_job *job);
