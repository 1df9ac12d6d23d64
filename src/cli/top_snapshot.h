/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One snapshot of heapctl top: profiles of the target, or of each process of a tree (TARGET:*), as
 * lists of what uses memory, with the figures of the allocator.
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
#include "client/target.h"

enum top_list {
	TOP_SITES,
	TOP_THREADS, /* where the allocator counts them: jemalloc */
	TOP_PROCESSES,
	TOP_LISTS,
};

struct top_item {
	const char *name;
	struct estimate bytes;
	double objects;
	double base_bytes; /* when growth began to be counted */
	double base_variance;
	int64_t pid, parent; /* of a process; else 0 */
};

struct top_items {
	struct top_item *items; /* by name */
	size_t count;
};

struct top_snapshot {
	struct top_items lists[TOP_LISTS];
	struct string_pool names;
	struct estimate bytes; /* of all sites */
	double objects;
	double base_bytes, base_variance;
	int64_t base_ms;     /* when that was */
	bool is_sampling;    /* all processes are */
	size_t active_count; /* processes whose sampling is on */
	size_t process_count;
	size_t left_out_count;			 /* of a tree, processes without a profile */
	char left_out[256];			 /* why the first of them */
	int64_t pid;				 /* 0 of a tree */
	int64_t allocated_bytes, resident_bytes; /* the allocators' own; 0 when unknown */
	int64_t time_ms;
	int64_t attached_ms; /* as in a profile; 0 of a tree */
};

/*
 * Asks the target, or each of the processes of a tree, of which those without a profile are left
 * out. Initialises `snapshot`, which is to be deinited when that went well.
 */
MUST_CHECK bool top_snapshot_take(const struct target *target, enum stack_pruning pruning,
	struct top_snapshot *snapshot, struct error *err);
MUST_CHECK bool top_snapshot_take_tree(const char *operand, const int *cancel_fd,
	enum stack_pruning pruning, struct top_snapshot *snapshot, struct error *err);

void top_snapshot_deinit(struct top_snapshot *snapshot);

/* Initialises `copy` with items of its own. */
void top_snapshot_copy(struct top_snapshot *copy, const struct top_snapshot *snapshot);

/* Measures growth from that earlier snapshot. Items that are gone since are added, with nothing. */
void top_snapshot_compare(struct top_snapshot *snapshot, const struct top_snapshot *base);
