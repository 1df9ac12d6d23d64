/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callgrind's profile format, for KCachegrind and callgrind_annotate, best from a view by lines.
 * https://valgrind.org/docs/manual/cl-format.html is the reference. A long name is written once
 * and referred to by its number afterwards. "calls=" counts samples: how often a function was
 * called is not known.
 */
#include "render/renderers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/function_name.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "render/quantity.h"

struct writer {
	const struct view *view;
	const struct graph *graph;
	struct buffer *out;
	const char **functions; /* for each node of the view */
	bool has_modules;	/* any node: the format keeps the last module until the next */
	struct string_pool pool;
	struct text_numbers files, names, objects; /* that were written, numbered from 1 */
};

/* "KEY=(NUMBER) NAME" the first time, "KEY=(NUMBER)" later. */
static void write_name(
	struct writer *writer, struct text_numbers *numbers, const char *key, const char *name)
{
	const size_t written = numbers->count;
	const uint32_t number = text_numbers_add(numbers, name);

	if (number < written)
		buffer_printf(writer->out, "%s=(%u)\n", key, number + 1);
	else
		buffer_printf(writer->out, "%s=(%u) %s\n", key, number + 1, name);
}

/* A function's name without its line, which is elsewhere in this format. */
static const char *make_function(struct writer *writer, const struct view_node *node)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (node->function[0] == '\0')
		return string_pool_add(&writer->pool, node->name);
	function_name_append_short(&text, node->function);
	return string_pool_add_sized(&writer->pool, text.data, text.size);
}

static void writer_init(struct writer *writer, const struct view *view, const struct graph *graph,
	struct buffer *out)
{
	*writer = (struct writer){ .view = view, .graph = graph, .out = out };
	string_pool_init(&writer->pool);
	writer->functions = xcalloc(view->node_count, sizeof *writer->functions);
	for (size_t i = 0; i < view->node_count; i++) {
		writer->functions[i] = make_function(writer, &view->nodes[i]);
		writer->has_modules |= view->nodes[i].module[0] != '\0';
	}
}

static void writer_deinit(struct writer *writer)
{
	free(writer->functions);
	string_pool_deinit(&writer->pool);
	text_numbers_deinit(&writer->files);
	text_numbers_deinit(&writer->names);
	text_numbers_deinit(&writer->objects);
}

/* callgrind's word for unknown. */
static const char *or_unknown(const char *name)
{
	return name[0] == '\0' ? "???" : name;
}

/* Where a node is; `prefix` is "c" for the target of a call. */
static void write_place(struct writer *writer, uint32_t at, const char *prefix)
{
	const struct view_node *const node = &writer->view->nodes[at];
	char key[8];

	if (writer->has_modules) {
		snprintf(key, sizeof key, "%sob", prefix);
		write_name(writer, &writer->objects, key, or_unknown(node->module));
	}
	snprintf(key, sizeof key, "%sfl", prefix);
	write_name(writer, &writer->files, key, or_unknown(node->file));
	snprintf(key, sizeof key, "%sfn", prefix);
	write_name(writer, &writer->names, key, writer->functions[at]);
}

/* The edges of a graph by where they begin: those of node i are order[first[i] .. first[i + 1]). */
struct edge_list {
	size_t *first;
	uint32_t *order;
};

static void edge_list_deinit(struct edge_list *list)
{
	free(list->first);
	free(list->order);
}

static void edge_list_init(struct edge_list *list, const struct graph *graph)
{
	list->first = xcalloc(graph->node_count + 2, sizeof *list->first);
	list->order = xcalloc(graph->edge_count, sizeof *list->order);
	for (size_t i = 0; i < graph->edge_count; i++)
		list->first[graph->edges[i].from + 2]++;
	for (size_t i = 2; i < graph->node_count + 2; i++)
		list->first[i] += list->first[i - 1];
	for (size_t i = 0; i < graph->edge_count; i++)
		list->order[list->first[graph->edges[i].from + 1]++] = (uint32_t)i;
}

static void write_calls(struct writer *writer, const struct edge_list *list, size_t at)
{
	const struct graph *const graph = writer->graph;
	const struct view_node *const nodes = writer->view->nodes;

	for (size_t i = list->first[at]; i < list->first[at + 1]; i++) {
		const struct graph_edge *const edge = &graph->edges[list->order[i]];
		const uint32_t to = graph->nodes[edge->to].node;
		const double calls = round(edge->weight.samples);
		write_place(writer, to, "c");
		buffer_printf(writer->out, "calls=%.0f %u\n%u %.0f\n", calls < 1 ? 1 : calls,
			nodes[to].line, nodes[graph->nodes[at].node].line,
			round(edge->weight.value));
	}
}

static void write_node(struct writer *writer, const struct edge_list *list, size_t at)
{
	const struct graph_node *const node = &writer->graph->nodes[at];

	write_place(writer, node->node, "");
	/* Of 0, too: callgrind_annotate stumbles over files that only have calls. */
	buffer_printf(writer->out, "%u %.0f\n", writer->view->nodes[node->node].line,
		round(node->flat.value));
	write_calls(writer, list, at);
	buffer_append_char(writer->out, '\n');
}

/* What was allocated by stacks without frames, which no node has. */
static double sum_without_stack(const struct view *view)
{
	double sum = 0;

	for (size_t i = 0; i < view->path_count; i++) {
		if (view->paths[i].depth == 0)
			sum += view_path_estimate(view, &view->paths[i], view->counter).value;
	}
	return sum;
}

static void write_without_stack(struct writer *writer, double sum)
{
	if (writer->has_modules)
		write_name(writer, &writer->objects, "ob", "???");
	write_name(writer, &writer->files, "fl", "???");
	write_name(writer, &writer->names, "fn", "[no stack]");
	buffer_printf(writer->out, "0 %.0f\n\n", round(sum));
}

/* The format has no negative costs. */
static bool check(const struct graph *graph, double without_stack, struct error *err)
{
	bool shrank = without_stack < 0;

	for (size_t i = 0; i < graph->node_count; i++)
		shrank |= graph->nodes[i].flat.value < 0 || graph->nodes[i].cumulative.value < 0;
	if (!shrank)
		return true;
	error_set(err, ERROR_USAGE, "callgrind's format has no negative values");
	return error_hint(err, "add --drop_negative to see what grew");
}

bool render_callgrind(const struct view *view, const struct render_options *options,
	struct buffer *out, struct error *err)
{
	const struct graph_limits all = GRAPH_LIMITS_NONE;
	CLEANUP(graph_cleanup) struct graph *graph = graph_new(view, view->counter, &all);
	CLEANUP(edge_list_deinit) struct edge_list list = { 0 };
	CLEANUP(writer_deinit) struct writer writer = { 0 };
	const struct render_options in_bytes = { .show_bytes = true };
	const double without_stack = sum_without_stack(view);

	(void)options;
	if (!check(graph, without_stack, err))
		return false;
	writer_init(&writer, view, graph, out);
	edge_list_init(&list, graph);
	const char *const unit = jeprof_value_unit(view, &in_bytes);
	CLEANUP(buffer_deinit) struct buffer title = BUFFER_OR_EXIT;
	utf8_append_printable(&title, view->title, strlen(view->title));
	buffer_printf(out,
		"# callgrind format\nversion: 1\ncreator: heapctl\ncmd: %s\npositions: line\n"
		"events: %s\n\n",
		buffer_string(&title), strcmp(unit, "B") == 0 ? "Bytes" : unit);
	for (size_t i = 0; i < graph->node_count; i++)
		write_node(&writer, &list, i);
	if (without_stack != 0)
		write_without_stack(&writer, without_stack);
	buffer_printf(out, "totals: %.0f\n", round(view_sum(view, view->counter).value));
	return true;
}
