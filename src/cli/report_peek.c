/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_peek.h"

#include "analysis/graph.h"
#include "render/quantity.h"

static void append_neighbour(struct buffer *out, const struct view *view,
	const struct render_options *render, double value, double of, const char *name)
{
	buffer_printf(out, "%8s %6s            | %s\n",
		jeprof_value_format(view, render, value).text, jeprof_value_percent(value, of).text,
		name);
}

static void append_peek(struct buffer *out, const struct view *view, const struct graph *graph,
	const struct render_options *render, uint32_t at)
{
	const struct graph_node *const node = &graph->nodes[at];
	const double all = node->cumulative.value;

	for (size_t i = 0; i < graph->edge_count; i++) {
		const struct graph_edge *const edge = &graph->edges[i];
		if (edge->to == at)
			append_neighbour(out, view, render, edge->weight.value, all,
				view->nodes[graph->nodes[edge->from].node].name);
	}
	buffer_printf(out, "%8s %8s %6s %s\n",
		jeprof_value_format(view, render, node->flat.value).text,
		jeprof_value_format(view, render, all).text,
		jeprof_value_percent(all, graph->whole).text, view->nodes[node->node].name);
	for (size_t i = 0; i < graph->edge_count; i++) {
		const struct graph_edge *const edge = &graph->edges[i];
		if (edge->from == at)
			append_neighbour(out, view, render, edge->weight.value, all,
				view->nodes[graph->nodes[edge->to].node].name);
	}
	buffer_append_string(out, "----------------------------\n");
}

bool report_peek_write(const struct view *view, const struct render_options *render,
	struct pattern *pattern, struct buffer *out, struct error *err)
{
	const struct graph_limits all = { .node_count = SIZE_MAX, .max_degree = SIZE_MAX };
	CLEANUP(graph_cleanup) struct graph *graph = graph_new(view, view->counter, &all);

	for (size_t i = 0; i < graph->node_count; i++) {
		if (pattern_matches(pattern, view->nodes[graph->nodes[i].node].name))
			append_peek(out, view, graph, render, (uint32_t)i);
	}
	return pattern_check(pattern, err);
}
