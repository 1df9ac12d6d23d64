/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/source_listing.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/function_name.h"
#include "base/xalloc.h"
#include "cli/source_file.h"
#include "cli/verb.h"
#include "render/jeprof_value.h"

/* Lines shown before and after a function. */
enum { CONTEXT_LINES = 5 };

/* A function in a file, and its nodes: one for each line with figures, ordered by line. */
struct listed {
	const char *function;
	const char *file;
	uint32_t start_line;
	size_t first; /* in lister.order */
	size_t count;
	double cumulative; /* paths through any of the lines, each counted once */
};

struct lister {
	const struct report_session *session;
	const struct view *view;
	const struct view_totals *totals;
	struct buffer *out;
	uint32_t *order; /* nodes */
	size_t order_count;
	struct listed *functions;
	size_t count, capacity;
};

static int by_place(const void *a, const void *b, void *context)
{
	const struct view *const view = context;
	const struct view_node *const left = &view->nodes[*(const uint32_t *)a];
	const struct view_node *const right = &view->nodes[*(const uint32_t *)b];
	int order = strcmp(left->function, right->function);

	if (order == 0)
		order = strcmp(left->file, right->file);
	return order != 0 ? order : (left->line > right->line) - (left->line < right->line);
}

static void collect(struct lister *lister, struct pattern *pattern)
{
	const struct view *const view = lister->view;
	CLEANUP(buffer_cleanup) struct buffer scratch = { 0 };

	buffer_init(&scratch, &memory_or_exit);
	lister->order = xreallocarray(NULL, view->node_count, sizeof *lister->order);
	for (size_t i = 0; i < view->node_count; i++) {
		const struct view_node *const node = &view->nodes[i];
		if (node->function[0] != '\0' && node->file[0] != '\0' && node->line != 0 &&
			filter_matches_function(pattern, &scratch, node->function))
			lister->order[lister->order_count++] = (uint32_t)i;
	}
	qsort_r(lister->order, lister->order_count, sizeof *lister->order, by_place,
		(void *)(uintptr_t)view);
}

static void group(struct lister *lister)
{
	for (size_t i = 0; i < lister->order_count; i++) {
		const struct view_node *const node = &lister->view->nodes[lister->order[i]];
		struct listed *last =
			lister->count == 0 ? NULL : &lister->functions[lister->count - 1];
		if (last == NULL || last->function != node->function || last->file != node->file) {
			lister->functions = xgrow(lister->functions, &lister->capacity,
				lister->count + 1, sizeof *lister->functions);
			last = &lister->functions[lister->count++];
			*last = (struct listed){ node->function, node->file, node->start_line, i, 0,
				0 };
		}
		last->count++;
	}
}

/* What goes through each function, whichever of its lines, counted once for each path. */
static void sum_functions(struct lister *lister)
{
	const struct view *const view = lister->view;
	CLEANUP(free_cleanup)
	uint32_t *group_of = xcalloc(view->node_count, sizeof *group_of);
	CLEANUP(free_cleanup) size_t *seen_by = xcalloc(lister->count + 1, sizeof *seen_by);

	for (size_t f = 0; f < lister->count; f++) {
		const struct listed *const function = &lister->functions[f];
		for (size_t i = 0; i < function->count; i++)
			group_of[lister->order[function->first + i]] = (uint32_t)(f + 1);
	}
	for (size_t p = 0; p < view->path_count; p++) {
		const struct view_path *const path = &view->paths[p];
		for (uint32_t at = 0; at < path->depth; at++) {
			const uint32_t g = group_of[view->path_nodes[path->first + at]];
			if (g == 0 || seen_by[g] == p + 1)
				continue;
			seen_by[g] = p + 1;
			lister->functions[g - 1].cumulative +=
				view_path_estimate(view, path, view->counter).value;
		}
	}
}

static struct jeprof_value sparse(const struct lister *lister, double value)
{
	static const struct jeprof_value nothing = { "." };

	return value == 0 ? nothing
			  : jeprof_value_format(
				    lister->view, &lister->session->options->render, value);
}

static uint32_t line_of(const struct lister *lister, size_t at)
{
	return lister->view->nodes[lister->order[at]].line;
}

/* Writes one line of source; nodes of the line begin at *at, which moves past them. */
static void write_line(struct lister *lister, const struct listed *function,
	const struct source_file *source, uint32_t line, size_t *at)
{
	double flat = 0;
	double cumulative = 0;

	for (; *at < function->first + function->count && line_of(lister, *at) == line; ++*at) {
		flat += lister->totals[lister->order[*at]].flat.value;
		cumulative += lister->totals[lister->order[*at]].cumulative.value;
	}
	buffer_printf(lister->out, "%6s %6s %4u: ", sparse(lister, flat).text,
		sparse(lister, cumulative).text, line);
	if (line <= source->count)
		buffer_append(lister->out, source->lines[line - 1], source->sizes[line - 1]);
	buffer_append_char(lister->out, '\n');
}

static void write_header(struct lister *lister, const struct listed *function)
{
	const struct render_options *const options = &lister->session->options->render;
	double flat = 0;

	for (size_t i = 0; i < function->count; i++)
		flat += lister->totals[lister->order[function->first + i]].flat.value;
	buffer_append_string(lister->out, "ROUTINE ====================== ");
	function_name_append_short(lister->out, function->function);
	buffer_printf(lister->out, " in %s\n%6s %6s Total %s (flat / cumulative)\n", function->file,
		jeprof_value_format(lister->view, options, flat).text,
		jeprof_value_format(lister->view, options, function->cumulative).text,
		jeprof_value_unit(lister->view, options));
}

static void write_function(struct lister *lister, const struct listed *function)
{
	CLEANUP(source_file_close) struct source_file source = { 0 };
	struct error err;
	size_t at = function->first;
	const uint32_t lowest = line_of(lister, at);
	const uint32_t last = line_of(lister, at + function->count - 1);
	const uint32_t first = function->start_line != 0 && function->start_line <= lowest
				       ? function->start_line
				       : lowest;
	size_t end = last;

	if (source_file_open(function->file, lister->session->options->sysroot, &source, &err))
		end = source_file_end_of(&source, first, last);
	else
		verb_warn("%s", err.message);
	write_header(lister, function);
	for (uint32_t line = first > CONTEXT_LINES ? first - CONTEXT_LINES : 1;
		line <= end + CONTEXT_LINES; line++) {
		if (source.count != 0 ? line > source.count
				      : (at == function->first + function->count ||
						line != line_of(lister, at)))
			continue;
		if (line == first)
			buffer_append_string(lister->out, "---\n");
		write_line(lister, function, &source, line, &at);
		if (line == end)
			buffer_append_string(lister->out, "---\n");
	}
}

void source_listing_write(const struct report_session *session, const struct view *view,
	struct pattern *pattern, struct buffer *out, bool *any)
{
	CLEANUP(free_cleanup) struct view_totals *totals = view_sum_nodes(view, view->counter);
	struct lister lister = { .session = session, .view = view, .totals = totals, .out = out };

	collect(&lister, pattern);
	group(&lister);
	sum_functions(&lister);
	for (size_t i = 0; i < lister.count; i++)
		write_function(&lister, &lister.functions[i]);
	*any = lister.count != 0;
	free(lister.order);
	free(lister.functions);
}
