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
	free(tree);
}

/* The paths that go through a node of the tree, side by side in tree_builder.paths. */
struct path_span {
	uint32_t first, count;
};

struct tree_builder {
	const struct view *view;
	enum profile_counter counter;
	bool is_inverted;
	struct tree *tree;
	struct path_span *spans; /* of the tree's nodes */
	size_t span_capacity;
	uint32_t *paths;	  /* positions in the view */
	uint32_t *scratch;	  /* as many */
	uint32_t *children;	  /* of the node that is being divided, by node of the view */
	struct sibling *siblings; /* the same, in their order */
	size_t sibling_capacity;
};

static uint32_t append(struct tree_builder *builder, uint32_t parent, uint32_t node)
{
	struct tree *const tree = builder->tree;
	const uint32_t position = (uint32_t)tree->node_count;
	const uint32_t depth = parent == TREE_NONE ? 0 : tree->nodes[parent].depth + 1;

	*XAPPEND(tree->nodes, tree->node_count, tree->node_capacity) = (struct tree_node){
		.node = node,
		.parent = parent,
		.first_child = TREE_NONE,
		.next_sibling = TREE_NONE,
		.depth = depth,
	};
	builder->spans = xgrow(
		builder->spans, &builder->span_capacity, tree->node_count, sizeof *builder->spans);
	builder->spans[position] = (struct path_span){ 0 };
	return position;
}

static void add_total(
	const struct tree_builder *builder, struct tree_node *node, const struct view_path *path)
{
	estimate_add(&node->total, path->now[builder->counter]);
	estimate_add(&node->base_total, path->base[builder->counter]);
}

static uint32_t node_at(
	const struct tree_builder *builder, const struct view_path *path, uint32_t depth)
{
	return builder->view->path_nodes[path->first +
					 (builder->is_inverted ? path->depth - 1 - depth : depth)];
}

/* Makes the children of a node, and adds each of its paths to one, or to the node itself. */
static void make_children(struct tree_builder *builder, uint32_t at)
{
	const struct path_span span = builder->spans[at];
	const uint32_t depth = builder->tree->nodes[at].depth;

	for (uint32_t i = span.first; i < span.first + span.count; i++) {
		const struct view_path *const path = &builder->view->paths[builder->paths[i]];
		if (path->depth == depth) {
			struct tree_node *const node = &builder->tree->nodes[at];
			estimate_add(&node->self, path->now[builder->counter]);
			estimate_add(&node->base_self, path->base[builder->counter]);
			continue;
		}
		uint32_t *const child = &builder->children[node_at(builder, path, depth)];
		if (*child == TREE_NONE)
			*child = append(builder, at, node_at(builder, path, depth));
		add_total(builder, &builder->tree->nodes[*child], path);
		builder->spans[*child].count++;
	}
}

/* Puts the paths of each child side by side, in the order that they had. */
static void distribute_paths(struct tree_builder *builder, uint32_t at, uint32_t first_child)
{
	const struct path_span span = builder->spans[at];
	const uint32_t depth = builder->tree->nodes[at].depth;
	uint32_t next = span.first;

	for (uint32_t child = first_child; child < builder->tree->node_count; child++) {
		builder->spans[child].first = next;
		next += builder->spans[child].count;
		builder->spans[child].count = 0;
	}
	for (uint32_t i = span.first; i < span.first + span.count; i++) {
		const struct view_path *const path = &builder->view->paths[builder->paths[i]];
		if (path->depth == depth)
			continue;
		struct path_span *const child =
			&builder->spans[builder->children[node_at(builder, path, depth)]];
		builder->scratch[child->first + child->count++] = builder->paths[i];
	}
	memcpy(builder->paths + span.first, builder->scratch + span.first,
		(next - span.first) * sizeof *builder->paths);
}

struct sibling {
	uint32_t position;
	double size;
	const char *name;
};

static int by_size(const void *a, const void *b)
{
	const struct sibling *const left = a;
	const struct sibling *const right = b;

	if (left->size != right->size)
		return left->size < right->size ? 1 : -1;
	const int order = strcmp(left->name, right->name);
	return order != 0 ? order
			  : (left->position > right->position) - (left->position < right->position);
}

static double size_of(const struct tree_node *node)
{
	return fabs(node->total.value - node->base_total.value);
}

/* Puts the children, which are the last nodes, into their order. */
static void link_children(struct tree_builder *builder, uint32_t at, uint32_t first_child)
{
	struct tree *const tree = builder->tree;
	const size_t count = tree->node_count - first_child;

	builder->siblings = xgrow(
		builder->siblings, &builder->sibling_capacity, count, sizeof *builder->siblings);
	for (size_t i = 0; i < count; i++) {
		const struct tree_node *const node = &tree->nodes[first_child + i];
		builder->siblings[i] = (struct sibling){ (uint32_t)(first_child + i), size_of(node),
			builder->view->nodes[node->node].name };
		builder->children[node->node] = TREE_NONE;
	}
	qsort(builder->siblings, count, sizeof *builder->siblings, by_size);
	for (size_t i = count; i-- > 0;) {
		const uint32_t position = builder->siblings[i].position;
		tree->nodes[position].next_sibling = tree->nodes[at].first_child;
		tree->nodes[at].first_child = position;
	}
}

static void divide(struct tree_builder *builder, uint32_t at)
{
	const uint32_t first_child = (uint32_t)builder->tree->node_count;

	make_children(builder, at);
	distribute_paths(builder, at, first_child);
	link_children(builder, at, first_child);
}

static void make_root(struct tree_builder *builder)
{
	append(builder, TREE_NONE, TREE_NONE);
	builder->spans[0].count = (uint32_t)builder->view->path_count;
	for (uint32_t i = 0; i < builder->spans[0].count; i++) {
		builder->paths[i] = i;
		add_total(builder, &builder->tree->nodes[0], &builder->view->paths[i]);
	}
}

struct tree *tree_new(
	const struct view *view, enum profile_counter counter, bool is_inverted, double limit)
{
	struct tree *const tree = xcalloc(1, sizeof *tree);
	CLEANUP(free_cleanup)
	uint32_t *paths = xreallocarray(NULL, 2 * view->path_count, sizeof *paths);
	CLEANUP(free_cleanup)
	uint32_t *children = xreallocarray(NULL, view->node_count, sizeof *children);
	struct tree_builder builder = {
		.view = view,
		.counter = counter,
		.is_inverted = is_inverted,
		.tree = tree,
		.paths = paths,
		.scratch = paths + view->path_count,
		.children = children,
	};

	for (size_t i = 0; i < view->node_count; i++)
		children[i] = TREE_NONE;
	make_root(&builder);
	for (uint32_t at = 0; at < tree->node_count; at++) {
		if (at == 0 || size_of(&tree->nodes[at]) > limit)
			divide(&builder, at);
	}
	free(builder.spans);
	free(builder.siblings);
	return tree;
}
