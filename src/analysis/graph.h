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

#define GRAPH_LIMITS_NONE ((struct graph_limits){ .node_count = SIZE_MAX, .max_degree = SIZE_MAX })

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

DEFINE_CLEANUP(graph_cleanup, struct graph *, graph_free)

/*
 * The call tree of a view: paths with a common beginning share it. Root first, or leaf first
 * when inverted (which functions call this, and from where).
 */

#define TREE_NONE UINT32_MAX

struct tree_node {
	uint32_t node;	 /* in view.nodes; TREE_NONE for the root of all */
	uint32_t parent; /* positions in tree.nodes; TREE_NONE where there is none */
	uint32_t first_child;
	uint32_t next_sibling;
	uint32_t depth;		     /* 0 for the root */
	struct estimate self, total; /* of view_path.now */
	struct estimate base_self, base_total;
};

struct tree {
	struct tree_node *nodes; /* the root first, parents before children */
	size_t node_count, node_capacity;
};

/*
 * Siblings are in falling order of their size, |total - base_total|, then by name. Only the root
 * and nodes larger than `limit` have children, and a figure of their own in `self`: a profile may
 * have a hundred times as many nodes as are shown. A limit below 0 makes all.
 */
struct tree *tree_new(
	const struct view *view, enum profile_counter counter, bool is_inverted, double limit);
void tree_free(struct tree *tree);

DEFINE_CLEANUP(tree_cleanup, struct tree *, tree_free)
