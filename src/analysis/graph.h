/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call graph of a view, cut down to what can be drawn and read: the biggest nodes by absolute
 * cumulative value, and the edges that matter between them. The rules are jeprof's, so that both
 * draw the same graph: a node is dropped at or below its fraction of the whole; an edge is kept
 * when it is the biggest into its target; otherwise it is dropped at or below its fraction, or
 * when either end has its fill of edges.
 */
#pragma once

#include "analysis/view.h"

struct graph_limits {
	size_t node_count;
	double node_fraction;
	double edge_fraction;
	size_t max_degree; /* edges into and out of a node */
};

#define GRAPH_LIMITS_DEFAULT                      \
	((struct graph_limits){ .node_count = 80, \
		.node_fraction = 0.005,           \
		.edge_fraction = 0.001,           \
		.max_degree = 8 })

struct graph_node {
	uint32_t node; /* in view.nodes */
	struct estimate flat;
	struct estimate cumulative;
};

/* Ends are positions in graph.nodes. */
struct graph_edge {
	uint32_t from;
	uint32_t to;
	struct estimate weight;
};

struct graph {
	struct graph_node *nodes; /* by falling absolute cumulative value */
	struct graph_edge *edges; /* by falling value */
	size_t node_count;
	size_t edge_count;
	size_t edge_capacity;
	size_t dropped_nodes;
	size_t dropped_edges;
	double whole;	   /* see view_whole */
	double node_limit; /* what was at or below it got dropped */
	double edge_limit;
};

struct graph *graph_new(
	const struct view *view, enum profile_counter counter, const struct graph_limits *limits);
void graph_free(struct graph *graph);

static inline void graph_cleanup(struct graph **graph)
{
	graph_free(*graph);
}
