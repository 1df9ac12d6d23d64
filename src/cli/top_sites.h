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

#include "analysis/stack_filter.h"
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
};

/* Asks the target. Initialises `snapshot`, which is to be deinited when that went well. */
MUST_CHECK bool top_snapshot_take(const struct target *target, enum stack_pruning pruning,
	struct top_snapshot *snapshot, struct error *err);
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
	const char *filter; /* part of a site's name, in any case; "" for all */
	size_t skip;	    /* sites that were scrolled past */
	size_t rows;	    /* of sites */
	size_t columns;	    /* characters in a line; 0 for any number */
	bool is_frozen;
};

/* Heading and sites; `snapshot` gets sorted. Returns how many sites the filter leaves. */
size_t top_table_write(
	const struct top_table *table, struct top_snapshot *snapshot, struct buffer *out);

/* Appends a line cut to that many characters (0: all), control characters shown as '?'. */
void top_table_line(struct buffer *out, size_t columns, const char *text);
