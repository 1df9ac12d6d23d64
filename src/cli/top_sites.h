/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One snapshot of heapctl top: a profile of the target as a list of sites, with its memory figures;
 * and the table of them, as lines: for the screen, cut to its size, and for a pipe.
 *
 * A *site* is where something was allocated: the innermost functions of its stacks, as in
 * "zmalloc < sdsnewlen < createObject", because a program's own wrappers of malloc say little.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/filter.h"
#include "analysis/view.h"
#include "base/buffer.h"
#include "client/target.h"

struct top_site {
	const char *name;
	struct estimate bytes;
	double objects;
	double base_bytes; /* when growth began to be counted */
	double base_variance;
};

struct top_snapshot {
	struct top_site *sites; /* by name */
	size_t site_count;
	struct string_pool names;
	struct estimate bytes; /* of all sites */
	double objects;
	double base_bytes, base_variance;
	int64_t base_ms; /* when that was */
	bool is_sampling;
	int64_t pid;
	int64_t allocated_bytes, resident_bytes; /* the allocator's own; 0 when unknown */
	int64_t time_ms;
	int64_t attached_ms; /* as in a profile */
};

void top_snapshot_deinit(struct top_snapshot *snapshot);

/* Initialises `copy` with sites of its own. */
void top_snapshot_copy(struct top_snapshot *copy, const struct top_snapshot *snapshot);

/* Measures growth from that earlier snapshot. Sites that are gone since are added, with nothing. */
void top_snapshot_compare(struct top_snapshot *snapshot, const struct top_snapshot *base);

enum top_order {
	TOP_BY_BYTES,
	TOP_BY_GROWTH,
	TOP_BY_OBJECTS,
};

struct top_table {
	const char *label; /* of the target */
	enum top_order order;
	const char *filter;  /* part of a site's name, in any case; "" for all */
	size_t skip;	     /* sites that were scrolled past */
	size_t rows;	     /* of sites */
	size_t columns;	     /* characters in a line; 0 for any number */
	size_t heading_rows; /* TOP_HEADING_ROWS, or 1 and more where there is no room for all */
	bool is_frozen;
};

enum { TOP_HEADING_ROWS = 4 };

/* Heading and sites; `snapshot` gets sorted. Returns how many sites the filter leaves. */
size_t top_table_write(
	const struct top_table *table, struct top_snapshot *snapshot, struct buffer *out);

/* Appends a line cut to that many characters (0: all), control characters shown as '?'. */
void top_table_line(struct buffer *out, size_t columns, const char *text);

/*
 * The requests of `heapctl top` to its target, in a separate thread: a target that hangs, or a
 * program whose symbols take a minute, must not keep the keys waiting. One job at a time.
 */

enum top_switch {
	TOP_SWITCH_LEAVE,
	TOP_SWITCH_ON,
	TOP_SWITCH_OFF,
};

struct top_request {
	const char *operand; /* a target that was restarted is found under it */
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
