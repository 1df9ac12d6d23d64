/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The textual report. Without --confidence it is jeprof's to the letter:
 *
 *	Total: 217.1 MB
 *	   190.7  87.9%  87.9%    190.7  87.9% sdsnewlen
 *
 * that is: flat, its share, the share of all rows so far, cumulative, its share, name.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/graph.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "render/quantity.h"
#include "render/renderers.h"

struct text_row {
	const char *name;
	const struct view_totals *totals;
	const struct view_totals *counts; /* of objects; NULL unless means are shown */
};

/* What the amounts of this counter are of. */
static enum profile_counter counter_of_objects(enum profile_counter counter)
{
	return counter == PROFILE_ALLOC_SPACE ? PROFILE_ALLOC_OBJECTS : PROFILE_INUSE_OBJECTS;
}

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
	const struct view_totals *counts, const struct render_options *options, size_t *count)
{
	struct text_row *const rows = xreallocarray(NULL, view->node_count, sizeof *rows);

	*count = 0;
	for (size_t i = 0; i < view->node_count; i++) {
		if (totals[i].flat.value != 0 || totals[i].cumulative.value != 0)
			rows[(*count)++] = (struct text_row){ view->nodes[i].name, &totals[i],
				counts == NULL ? NULL : &counts[i] };
	}
	qsort_r(rows, *count, sizeof *rows, compare_rows, (void *)(uintptr_t)options);
	return rows;
}

static double mean_of(double value, double count)
{
	return count > 0 ? value / count : 0;
}

static void append_total(
	struct buffer *out, const struct view *view, const struct render_options *options)
{
	const enum profile_counter counter = view->counter;
	const double objects = view->total[counter_of_objects(counter)];
	double total = view->total[counter] - view->base_total[counter];

	if (total == 0 && !view->is_difference)
		return;
	if (options->mean) {
		buffer_printf(out, "Mean of %.0f", objects);
		total = mean_of(total, objects);
	} else {
		buffer_append_string(out, "Total");
	}
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
	buffer_printf(out, "Before: %s, now%s: %s, all changes: %s %s (shares are of these)\n",
		jeprof_value_format(view, options, view->base_total[counter]).text,
		view->drops_negative ? " with what shrank as before" : "",
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

static struct jeprof_value format_error(
	const struct view *view, const struct render_options *options, struct estimate estimate)
{
	return view->lacks_errors ? (struct jeprof_value){ "?" }
				  : jeprof_value_format(view, options, sqrt(estimate.variance));
}

static void append_row(struct buffer *out, const struct view *view,
	const struct render_options *options, const struct text_row *row, double running,
	double whole)
{
	const struct estimate flat = row->totals->flat;
	const struct estimate cumulative = row->totals->cumulative;
	const bool is_mean = row->counts != NULL;
	const double shown_flat =
		is_mean ? mean_of(flat.value, row->counts->flat.value) : flat.value;
	const double shown_cumulative =
		is_mean ? mean_of(cumulative.value, row->counts->cumulative.value)
			: cumulative.value;

	append_column(out, 8, jeprof_value_format(view, options, shown_flat));
	if (options->confidence)
		append_column(out, 8, format_error(view, options, flat));
	append_column(out, 6, jeprof_value_percent(flat.value, whole));
	append_column(out, 6, jeprof_value_percent(running, whole));
	append_column(out, 8, jeprof_value_format(view, options, shown_cumulative));
	if (options->confidence)
		append_column(out, 8, format_error(view, options, cumulative));
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
	CLEANUP(free_cleanup)
	struct view_totals *counts =
		options->mean ? view_sum_nodes(view, counter_of_objects(view->counter)) : NULL;
	size_t count = 0;
	CLEANUP(free_cleanup)
	struct text_row *rows = make_rows(view, totals, counts, options, &count);
	double running = 0;

	if (options->mean && view->total[view->counter] != 0 &&
		view->total[counter_of_objects(view->counter)] == 0)
		return error_set(err, ERROR_USAGE, "there is no mean: no objects were counted");
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

/*
 * The call tree as text:
 *
 *	      MB   share     self
 *	    56.9  100.0%      0.0  redis-server
 *	    50.1   88.0%      0.0    main
 *	    50.1   88.0%      0.0    aeMain
 *	    28.1   49.3%      0.0      readQueryFromClient
 *
 * A line is indented only where the tree forks, so that long chains stay on the screen. Branches
 * below the fraction for nodes of the call graph are left out and counted.
 */

struct printer {
	const struct view *view;
	const struct tree *tree;
	const struct render_options *options;
	struct buffer *out;
	double whole;
	double limit;
};

static struct estimate total_of(const struct printer *printer, const struct tree_node *node)
{
	return printer->view->is_difference ? estimate_difference(node->total, node->base_total)
					    : node->total;
}

static struct estimate self_of(const struct printer *printer, const struct tree_node *node)
{
	return printer->view->is_difference ? estimate_difference(node->self, node->base_self)
					    : node->self;
}

static void print_line(const struct printer *printer, struct estimate total, double self,
	unsigned indent, const char *name)
{
	const struct view *const view = printer->view;

	buffer_printf(printer->out, "%8s ",
		jeprof_value_format(view, printer->options, total.value).text);
	if (printer->options->confidence)
		buffer_printf(printer->out, "%8s %7.0f ",
			format_error(view, printer->options, total).text, total.samples);
	buffer_printf(printer->out, "%6s %8s  %*s%s\n",
		jeprof_value_percent(total.value, printer->whole).text,
		jeprof_value_format(view, printer->options, self).text, (int)(2 * indent), "",
		name);
}

static bool is_visible(const struct printer *printer, const struct tree_node *node)
{
	return fabs(node->total.value - node->base_total.value) > printer->limit;
}

/* One line for the children from here on: they are in falling order, and this one is too small. */
static void print_rest(const struct printer *printer, uint32_t child, unsigned indent)
{
	struct estimate rest = { 0 };
	size_t count = 0;
	char name[64];

	for (; child != TREE_NONE; child = printer->tree->nodes[child].next_sibling) {
		estimate_add(&rest, total_of(printer, &printer->tree->nodes[child]));
		count++;
	}
	if (count == 0 || fabs(rest.value) <= printer->limit)
		return;
	snprintf(name, sizeof name, "(%zu smaller)", count);
	print_line(printer, rest, 0, indent, name);
}

/* Where the walk is: a tree is as deep as the stacks, so it must not be walked by recursion. */
struct place {
	uint32_t next;
	unsigned indent;
};

static bool forks(const struct printer *printer, uint32_t child)
{
	const struct tree_node *const nodes = printer->tree->nodes;

	return child != TREE_NONE && nodes[child].next_sibling != TREE_NONE &&
	       is_visible(printer, &nodes[nodes[child].next_sibling]);
}

static void print_tree(const struct printer *printer, struct place *places)
{
	const struct tree_node *const nodes = printer->tree->nodes;
	size_t depth = 1;

	places[0] = (struct place){ nodes[0].first_child, 0 };
	while (depth > 0) {
		struct place *const place = &places[depth - 1];
		if (place->next == TREE_NONE || !is_visible(printer, &nodes[place->next])) {
			print_rest(printer, place->next, place->indent);
			depth--;
			continue;
		}
		const struct tree_node *const node = &nodes[place->next];
		print_line(printer, total_of(printer, node), self_of(printer, node).value,
			place->indent, printer->view->nodes[node->node].name);
		place->next = node->next_sibling;
		places[depth++] = (struct place){ node->first_child,
			place->indent + (forks(printer, node->first_child) ? 1 : 0) };
	}
}

static uint32_t deepest(const struct tree *tree)
{
	uint32_t depth = 0;

	for (size_t i = 0; i < tree->node_count; i++) {
		if (tree->nodes[i].depth > depth)
			depth = tree->nodes[i].depth;
	}
	return depth;
}

bool render_tree(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	/* Stacks without frames are in the root. */
	const double whole = view->is_difference || view->shares_are_of_all
				     ? view_whole(view, view->counter)
				     : view_sum(view, view->counter).value;
	const double limit = options->graph.node_fraction * whole;
	CLEANUP(tree_cleanup)
	struct tree *tree = tree_new(view, view->counter, options->is_inverted, limit);
	struct printer printer = {
		.view = view,
		.tree = tree,
		.options = options,
		.out = out,
		.whole = whole,
		.limit = limit,
	};
	CLEANUP(free_cleanup)
	struct place *places = xcalloc(deepest(tree) + 2, sizeof *places);

	(void)err;
	CLEANUP(buffer_deinit) struct buffer title = BUFFER_OR_EXIT;
	utf8_append_printable(&title, view->title, strlen(view->title));
	buffer_printf(out, "%8s ", jeprof_value_unit(view, options));
	if (options->confidence)
		buffer_printf(out, "%8s %7s ", "+-", "samples");
	buffer_printf(out, "%6s %8s\n", "share", "self");
	print_line(&printer, total_of(&printer, &tree->nodes[0]),
		self_of(&printer, &tree->nodes[0]).value, 0,
		title.size == 0 ? "all" : buffer_string(&title));
	print_tree(&printer, places);
	return true;
}

/*
 * Collapsed stacks, one line for each distinct path: "main;server;alloc 4096". Figures are whole
 * bytes or objects; what rounding takes from a line the next one gets, so that the sum is right.
 * Frames are separated by semicolons, so those in names become colons; blanks
 * stay, since readers take the figure from the end of the line. Inlined frames end in "[inline]"
 * as jeprof has it.
 */

static void append_frame(struct buffer *out, const struct view_node *node)
{
	static const char suffix[] = " (inline)";
	size_t size = strlen(node->name);
	const size_t suffix_size = sizeof suffix - 1;

	if (node->is_inlined && size > suffix_size &&
		strcmp(node->name + size - suffix_size, suffix) == 0)
		size -= suffix_size;
	for (size_t i = 0; i < size; i++) {
		const char c = node->name[i];
		buffer_append_char(out, c == ';' ? ':' : c == '\n' ? ' ' : c);
	}
	if (node->is_inlined)
		buffer_append_string(out, "[inline]");
}

/* The frame of each node, one after the other, and where each begins; the end is the last one. */
static size_t *make_frames(const struct view *view, struct buffer *frames)
{
	size_t *const begins = xreallocarray(NULL, view->node_count + 1, sizeof *begins);

	for (size_t i = 0; i < view->node_count; i++) {
		begins[i] = frames->size;
		append_frame(frames, &view->nodes[i]);
	}
	begins[view->node_count] = frames->size;
	return begins;
}

bool render_collapsed(const struct view *view, const struct render_options *options,
	struct buffer *out, struct error *err)
{
	/* A node is in thousands of paths. */
	CLEANUP(buffer_deinit) struct buffer frames = BUFFER_OR_EXIT;
	CLEANUP(free_cleanup) size_t *begins = make_frames(view, &frames);
	double carried = 0;

	(void)options;
	(void)err;
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		const double wanted = view_path_estimate(view, path, view->counter).value + carried;
		const double value = round(wanted);
		carried = wanted - value;
		if (value == 0)
			continue;
		for (uint32_t at = 0; at < path->depth; at++) {
			if (at != 0)
				buffer_append_char(out, ';');
			const uint32_t node = view->path_nodes[path->first + at];
			buffer_append(
				out, frames.data + begins[node], begins[node + 1] - begins[node]);
		}
		if (path->depth == 0)
			buffer_append_string(out, "[no stack]");
		buffer_printf(out, " %.0f\n", value);
		buffer_drain(out);
	}
	return true;
}
