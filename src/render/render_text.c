/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The textual report. Without --confidence it is jeprof's to the letter:
 *
 *	Total: 217.1 MB
 *	   190.7  87.9%  87.9%    190.7  87.9% sdsnewlen
 *
 * that is: flat, its share, the share of all rows so far, cumulative, its share, name.
 */
#include "render/renderers.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/xalloc.h"
#include "render/quantity.h"

struct text_row {
	const char *name;
	const struct view_totals *totals;
};

static double sort_value(const struct text_row *row, enum render_sort sort)
{
	switch (sort) {
	case RENDER_SORT_CUMULATIVE:
		return row->totals->cumulative.value;
	case RENDER_SORT_CHANGE:
		return fabs(row->totals->flat.value);
	case RENDER_SORT_FLAT:
		return row->totals->flat.value;
	case RENDER_SORT_NAME:
		break;
	}
	return 0;
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct text_row *const left = a;
	const struct text_row *const right = b;
	const struct render_options *const options = context;
	const double l = sort_value(left, options->sort);
	const double r = sort_value(right, options->sort);

	if (l != r)
		return l < r ? 1 : -1;
	return strcmp(left->name, right->name);
}

/* Nodes with any figure, in the requested order. */
static struct text_row *make_rows(const struct view *view, const struct view_totals *totals,
	const struct render_options *options, size_t *count)
{
	struct text_row *const rows = xreallocarray(NULL, view->node_count, sizeof *rows);

	*count = 0;
	for (size_t i = 0; i < view->node_count; i++) {
		if (totals[i].flat.value != 0 || totals[i].cumulative.value != 0)
			rows[(*count)++] = (struct text_row){ view->nodes[i].name, &totals[i] };
	}
	qsort_r(rows, *count, sizeof *rows, compare_rows, (void *)(uintptr_t)options);
	return rows;
}

static void append_total(
	struct buffer *out, const struct view *view, const struct render_options *options)
{
	const enum profile_counter counter = view->counter;
	const double total = view->total[counter] - view->base_total[counter];

	if (total == 0 && !view->is_difference)
		return;
	buffer_append_string(out, "Total");
	if (options->thread != NULL) {
		buffer_append_string(out, " (");
		utf8_append_printable(out, options->thread, strlen(options->thread));
		buffer_append_char(out, ')');
	}
	buffer_printf(out, ": %s %s\n", jeprof_value_format(view, options, total).text,
		jeprof_value_unit(view, options));
}

/* What the shares of a difference are of, and between what it is. */
static void append_explanation(
	struct buffer *out, const struct view *view, const struct render_options *options)
{
	const enum profile_counter counter = view->counter;

	if (!options->explain || !view->is_difference)
		return;
	buffer_printf(out, "Before: %s, now: %s, all changes: %s %s (shares are of these)\n",
		jeprof_value_format(view, options, view->base_total[counter]).text,
		jeprof_value_format(view, options, view->total[counter]).text,
		jeprof_value_format(view, options, view_whole(view, counter)).text,
		jeprof_value_unit(view, options));
}

/* "%*s ", without printf: it would take most of the time of a row. */
static void append_column(struct buffer *out, size_t width, struct jeprof_value figure)
{
	static const char blanks[] = "                ";
	const size_t size = strlen(figure.text);

	assert(width < sizeof blanks);
	if (size < width)
		buffer_append(out, blanks, width - size);
	buffer_append(out, figure.text, size);
	buffer_append_char(out, ' ');
}

static void append_row(struct buffer *out, const struct view *view,
	const struct render_options *options, const struct text_row *row, double running,
	double whole)
{
	const struct estimate flat = row->totals->flat;
	const struct estimate cumulative = row->totals->cumulative;

	append_column(out, 8, jeprof_value_format(view, options, flat.value));
	if (options->confidence)
		append_column(out, 8, jeprof_value_format(view, options, sqrt(flat.variance)));
	append_column(out, 6, jeprof_value_percent(flat.value, whole));
	append_column(out, 6, jeprof_value_percent(running, whole));
	append_column(out, 8, jeprof_value_format(view, options, cumulative.value));
	if (options->confidence)
		append_column(
			out, 8, jeprof_value_format(view, options, sqrt(cumulative.variance)));
	append_column(out, 6, jeprof_value_percent(cumulative.value, whole));
	if (options->confidence)
		buffer_printf(out, "%7.0f ", cumulative.samples);
	buffer_append_string(out, row->name);
	buffer_append_char(out, '\n');
}

bool render_text(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	CLEANUP(free_cleanup) struct view_totals *totals = view_sum_nodes(view, view->counter);
	const double whole = view_whole(view, view->counter);
	size_t count = 0;
	CLEANUP(free_cleanup) struct text_row *rows = make_rows(view, totals, options, &count);
	double running = 0;

	(void)err;
	append_total(out, view, options);
	append_explanation(out, view, options);
	if (options->confidence)
		buffer_printf(out, "%8s %8s %6s %6s %8s %8s %6s %7s %s\n", "flat", "+-", "flat%",
			"sum%", "cum", "+-", "cum%", "samples", "name");
	if (options->line_limit != 0 && count > options->line_limit)
		count = options->line_limit;
	for (size_t i = 0; i < count; i++) {
		const double flat = rows[i].totals->flat.value;
		running += view->is_difference ? fabs(flat) : flat;
		append_row(out, view, options, &rows[i], running, whole);
	}
	return true;
}
