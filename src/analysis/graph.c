/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#define NOT_DRAWN UINT32_MAX

void graph_free(struct graph *graph)
{
	if (graph == NULL)
		return;
	free(graph->nodes);
	free(graph->edges);
	free(graph);
}

static int by_cumulative(const void *a, const void *b, void *context)
{
	const struct graph_node *const left = a;
	const struct graph_node *const right = b;
	const struct view *const view = context;
	const double l = fabs(left->cumulative.value);
	const double r = fabs(right->cumulative.value);

	if (l != r)
		return l < r ? 1 : -1;
	const int order = strcmp(view->nodes[left->node].name, view->nodes[right->node].name);
	return order != 0 ? order : (left->node > right->node) - (left->node < right->node);
}

static int by_weight(const void *a, const void *b)
{
	const struct graph_edge *const left = a;
	const struct graph_edge *const right = b;

	if (left->weight.value != right->weight.value)
		return left->weight.value < right->weight.value ? 1 : -1;
	if (left->from != right->from)
		return left->from < right->from ? -1 : 1;
	return (left->to > right->to) - (left->to < right->to);
}

static void choose_nodes(
	struct graph *graph, const struct view *view, const struct view_totals *totals, size_t max)
{
	graph->nodes = xcalloc(view->node_count, sizeof *graph->nodes);
	for (size_t i = 0; i < view->node_count; i++) {
		if (fabs(totals[i].cumulative.value) > graph->node_limit)
			graph->nodes[graph->node_count++] = (struct graph_node){ (uint32_t)i,
				totals[i].flat, totals[i].cumulative };
	}
	qsort_r(graph->nodes, graph->node_count, sizeof *graph->nodes, by_cumulative,
		(void *)(uintptr_t)view);
	if (graph->node_count > max)
		graph->node_count = max;
	graph->dropped_nodes = view->node_count - graph->node_count;
}

struct edge_key {
	uint32_t from, to;
};

static bool is_edge(const void *items, uint32_t position, const void *key)
{
	const struct graph *const graph = items;
	const struct edge_key *const wanted = key;
	const struct graph_edge *const edge = &graph->edges[position];

	return edge->from == wanted->from && edge->to == wanted->to;
}

static uint32_t find_edge(struct graph *graph, struct hash_index *index, uint32_t from, uint32_t to)
{
	const struct edge_key key = { from, to };
	const uint32_t next = (uint32_t)graph->edge_count;
	const uint32_t found = hash_index_add(
		index, hash_u64((uint64_t)from << 32 | to), is_edge, graph, &key, next);

	if (found != HASH_INDEX_NONE)
		return found;
	*XAPPEND(graph->edges, graph->edge_count, graph->edge_capacity) =
		(struct graph_edge){ .from = from, .to = to };
	return next;
}

/* Where in graph.nodes each node of the view is. */
static uint32_t *make_places(const struct graph *graph, const struct view *view)
{
	uint32_t *const places = xreallocarray(NULL, view->node_count, sizeof *places);

	for (size_t i = 0; i < view->node_count; i++)
		places[i] = NOT_DRAWN;
	for (size_t i = 0; i < graph->node_count; i++)
		places[graph->nodes[i].node] = (uint32_t)i;
	return places;
}

/*
 * Adds up the edges between drawn nodes. A path counts once for an edge, however often recursion
 * goes along it.
 */
static void collect_edges(
	struct graph *graph, const struct view *view, enum profile_counter counter)
{
	CLEANUP(free_cleanup) uint32_t *places = make_places(graph, view);
	CLEANUP(free_cleanup) uint32_t *seen_by = NULL;
	size_t seen_capacity = 0;
	size_t seen_count = 0;
	struct hash_index index;

	hash_index_init(&index);
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		const uint32_t *const nodes = view->path_nodes + path->first;
		const struct estimate estimate = view_path_estimate(view, path, counter);
		for (uint32_t at = 1; at < path->depth; at++) {
			const uint32_t from = places[nodes[at - 1]];
			const uint32_t to = places[nodes[at]];
			if (from == NOT_DRAWN || to == NOT_DRAWN)
				continue;
			const uint32_t edge = find_edge(graph, &index, from, to);
			seen_by = xgrow(seen_by, &seen_capacity, edge + 1, sizeof *seen_by);
			while (seen_count <= edge)
				seen_by[seen_count++] = 0;
			if (seen_by[edge] == i + 1)
				continue;
			seen_by[edge] = (uint32_t)(i + 1);
			estimate_add(&graph->edges[edge].weight, estimate);
		}
	}
	hash_index_deinit(&index);
}

static void choose_edges(struct graph *graph, size_t max_degree)
{
	CLEANUP(free_cleanup) size_t *into = xcalloc(graph->node_count, sizeof *into);
	CLEANUP(free_cleanup) size_t *out_of = xcalloc(graph->node_count, sizeof *out_of);
	size_t kept = 0;

	qsort(graph->edges, graph->edge_count, sizeof *graph->edges, by_weight);
	for (size_t i = 0; i < graph->edge_count; i++) {
		const struct graph_edge edge = graph->edges[i];
		const bool is_first = into[edge.to] == 0;
		const bool is_big = fabs(edge.weight.value) > graph->edge_limit;
		const bool has_room = out_of[edge.from] < max_degree && into[edge.to] < max_degree;
		if (!is_first && !(is_big && has_room))
			continue;
		into[edge.to]++;
		out_of[edge.from]++;
		graph->edges[kept++] = edge;
	}
	graph->dropped_edges = graph->edge_count - kept;
	graph->edge_count = kept;
}

struct graph *graph_new(
	const struct view *view, enum profile_counter counter, const struct graph_limits *limits)
{
	struct graph *const graph = xcalloc(1, sizeof *graph);
	CLEANUP(free_cleanup) struct view_totals *totals = view_sum_nodes(view, counter);

	graph->whole = view_whole(view, counter);
	graph->node_limit = trunc(limits->node_fraction * graph->whole);
	graph->edge_limit = trunc(limits->edge_fraction * graph->whole);
	choose_nodes(graph, view, totals, limits->node_count);
	collect_edges(graph, view, counter);
	if (graph->edge_count != 0)
		choose_edges(graph, limits->max_degree);
	return graph;
}

void tree_free(struct tree *tree)
{
	if (tree == NULL)
		return;
	free(tree->nodes);
	hash_index_deinit(&tree->index);
	free(tree);
}

struct child_key {
	uint32_t parent, node;
};

static bool is_child(const void *items, uint32_t position, const void *key)
{
	const struct tree *const tree = items;
	const struct child_key *const wanted = key;
	const struct tree_node *const node = &tree->nodes[position];

	return node->parent == wanted->parent && node->node == wanted->node;
}

static uint32_t append(struct tree *tree, uint32_t parent, uint32_t node)
{
	tree->nodes =
		xgrow(tree->nodes, &tree->node_capacity, tree->node_count + 1, sizeof *tree->nodes);
	tree->nodes[tree->node_count] = (struct tree_node){
		.node = node,
		.parent = parent,
		.first_child = TREE_NONE,
		.next_sibling = TREE_NONE,
		.depth = parent == TREE_NONE ? 0 : tree->nodes[parent].depth + 1,
	};
	return (uint32_t)tree->node_count++;
}

static uint32_t child_of(struct tree *tree, uint32_t parent, uint32_t node)
{
	const struct child_key key = { parent, node };
	const uint32_t found = hash_index_add(&tree->index, hash_u64((uint64_t)parent << 32 | node),
		is_child, tree, &key, (uint32_t)tree->node_count);

	return found != HASH_INDEX_NONE ? found : append(tree, parent, node);
}

static void add_path(struct tree *tree, const struct view *view, const struct view_path *path,
	enum profile_counter counter, bool is_inverted)
{
	const uint32_t *const nodes = view->path_nodes + path->first;
	uint32_t at = 0;

	for (uint32_t i = 0;; i++) {
		estimate_add(&tree->nodes[at].total, path->now[counter]);
		estimate_add(&tree->nodes[at].base_total, path->base[counter]);
		if (i == path->depth)
			break;
		at = child_of(tree, at, nodes[is_inverted ? path->depth - 1 - i : i]);
	}
	estimate_add(&tree->nodes[at].self, path->now[counter]);
	estimate_add(&tree->nodes[at].base_self, path->base[counter]);
}

struct sibling {
	uint32_t position;
	uint32_t parent;
	double size;
	const char *name;
};

static int by_parent_and_size(const void *a, const void *b)
{
	const struct sibling *const left = a;
	const struct sibling *const right = b;

	if (left->parent != right->parent)
		return left->parent < right->parent ? -1 : 1;
	if (left->size != right->size)
		return left->size < right->size ? 1 : -1;
	const int order = strcmp(left->name, right->name);
	return order != 0 ? order
			  : (left->position > right->position) - (left->position < right->position);
}

static void link_children(struct tree *tree, const struct view *view)
{
	const size_t count = tree->node_count - 1;
	CLEANUP(free_cleanup)
	struct sibling *siblings = xreallocarray(NULL, count, sizeof *siblings);

	for (size_t i = 0; i < count; i++) {
		const struct tree_node *const node = &tree->nodes[i + 1];
		siblings[i] = (struct sibling){ (uint32_t)(i + 1), node->parent,
			fabs(node->total.value - node->base_total.value),
			view->nodes[node->node].name };
	}
	qsort(siblings, count, sizeof *siblings, by_parent_and_size);
	for (size_t i = count; i-- > 0;) {
		struct tree_node *const parent = &tree->nodes[siblings[i].parent];
		tree->nodes[siblings[i].position].next_sibling = parent->first_child;
		parent->first_child = siblings[i].position;
	}
}

struct tree *tree_new(const struct view *view, enum profile_counter counter, bool is_inverted)
{
	struct tree *const tree = xcalloc(1, sizeof *tree);

	hash_index_init(&tree->index);
	append(tree, TREE_NONE, TREE_NONE);
	for (size_t i = 0; i < view->path_count; i++)
		add_path(tree, view, &view->paths[i], counter, is_inverted);
	link_children(tree, view);
	return tree;
}
