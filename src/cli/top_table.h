/* SPDX-License-Identifier: Apache-2.0 */
/* What heapctl top shows, as lines: for the screen, cut to its size, and for a pipe. */
#pragma once

#include "base/buffer.h"
#include "cli/top_sites.h"

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

/* Heading and sites; `look` gets sorted. Returns how many sites the filter leaves. */
size_t top_table_write(const struct top_table *table, struct top_look *look, struct buffer *out);

/* Appends a line cut to that many characters (0: all), control characters shown as '?'. */
void top_table_line(struct buffer *out, size_t columns, const char *text);
