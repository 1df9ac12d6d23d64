/* SPDX-License-Identifier: Apache-2.0 */
/* The table of heapctl top, as lines: for the screen, cut to its size, and for a pipe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "cli/top_snapshot.h"

enum top_order {
	TOP_BY_BYTES,
	TOP_BY_GROWTH,
	TOP_BY_OBJECTS,
};

struct top_table {
	const char *label; /* of the target */
	enum top_list list;
	enum top_order order;
	const char *filter;  /* part of a name, in any case; "" for all */
	size_t skip;	     /* lines that were scrolled past */
	size_t rows;	     /* of items */
	size_t columns;	     /* characters in a line; 0 for any number */
	size_t heading_rows; /* TOP_HEADING_ROWS, or fewer where there is no room for all */
	bool is_frozen;
};

enum { TOP_HEADING_ROWS = 4 };

/*
 * Heading and items; `snapshot` gets sorted. Returns how many items the filter leaves. Processes
 * are a tree: each is followed by its children, in the order that is asked for.
 */
size_t top_table_write(
	const struct top_table *table, struct top_snapshot *snapshot, struct buffer *out);

/* The first that is not longer than `columns` (0: any length), or the last. */
const char *top_table_choose(size_t columns, const char *const texts[], size_t count);

/* Appends a line cut to that many characters (0: all), control characters shown as '?'. */
void top_table_line(struct buffer *out, size_t columns, const char *text);
