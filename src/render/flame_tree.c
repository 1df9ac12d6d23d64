/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only frames that are kept are ever divided, the heaviest first, so that the work grows with what
 * is shown: a path of which little is visible is looked at as often as it has visible frames.
 */
#include "render/flame_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#define NO_GROUP UINT32_MAX

static uint32_t node_at(const struct flame_tree *tree, uint32_t path_at, uint32_t depth)
{
	const struct view_path *const path = &tree->view->paths[path_at];

	if (path->depth == 0)
		return flame_no_stack(tree->view);
	return tree->view
		->path_nodes[path->first + (tree->is_inverted ? path->depth - 1 - depth : depth)];
}

/* A path without frames is shown as one frame of an extra node. */
static bool ends_at(const struct flame_tree *tree, uint32_t path_at, uint32_t depth)
{
	const uint32_t path_depth = tree->view->paths[path_at].depth;

	return depth == (path_depth == 0 ? 1 : path_depth);
}

static int compare_frames(const void *a, const void *b)
{
	const struct flame_frame *const x = a, *const y = b;

	return (x->node > y->node) - (x->node < y->node);
}

/* The groups of the frame's paths by their next node, as frames that are not kept yet. */
static void count_children(struct flame_tree *tree, uint32_t at)
{
	const struct flame_frame parent = tree->frames[at];
	const uint32_t first_child = (uint32_t)tree->frame_count;

	for (uint32_t i = parent.own; i < parent.count; i++) {
		const uint32_t path = tree->paths[parent.first + i];
		const uint32_t node = node_at(tree, path, parent.depth);
		if (tree->groups[node] == NO_GROUP) {
			tree->groups[node] = (uint32_t)tree->frame_count;
			*XAPPEND(tree->frames, tree->frame_count, tree->frame_capacity) =
				(struct flame_frame){
					.node = node,
					.depth = parent.depth + 1,
				};
		}
		struct flame_frame *const child = &tree->frames[tree->groups[node]];
		child->count++;
		child->weight += tree->weights[path];
	}
	tree->frames[at].first_child = first_child;
	tree->frames[at].child_count = (uint32_t)tree->frame_count - first_child;
}

/* Paths that end here come first, then those of each child. */
static void sort_paths(struct flame_tree *tree, uint32_t at)
{
	struct flame_frame *const frame = &tree->frames[at];
	uint32_t *const paths = tree->paths + frame->first;
	uint32_t own = 0;

	for (uint32_t i = 0; i < frame->count; i++) {
		if (!ends_at(tree, paths[i], frame->depth))
			continue;
		const uint32_t path = paths[i];
		paths[i] = paths[own];
		paths[own++] = path;
	}
	frame->own = own;
}

static void scatter_children(struct flame_tree *tree, uint32_t at)
{
	const struct flame_frame *const parent = &tree->frames[at];
	struct flame_frame *const children = tree->frames + parent->first_child;
	uint32_t *const paths = tree->paths + parent->first;
	uint32_t next = parent->first + parent->own;

	qsort(children, parent->child_count, sizeof *children, compare_frames);
	for (uint32_t i = 0; i < parent->child_count; i++) {
		children[i].first = next;
		next += children[i].count;
		tree->groups[children[i].node] = children[i].first;
	}
	for (uint32_t i = parent->own; i < parent->count; i++)
		tree->scratch[tree->groups[node_at(tree, paths[i], parent->depth)]++] = paths[i];
	memcpy(paths + parent->own, tree->scratch + parent->first + parent->own,
		(parent->count - parent->own) * sizeof *paths);
	for (uint32_t i = 0; i < parent->child_count; i++)
		tree->groups[children[i].node] = NO_GROUP;
}

static bool is_heavier(const struct flame_tree *tree, uint32_t a, uint32_t b)
{
	const double x = tree->frames[a].weight, y = tree->frames[b].weight;

	return x > y || (x == y && a < b);
}

static void heap_push(struct flame_tree *tree, uint32_t frame)
{
	*XAPPEND(tree->heap, tree->heap_count, tree->heap_capacity) = frame;
	for (size_t i = tree->heap_count - 1; i > 0;) {
		const size_t above = (i - 1) / 2;
		if (!is_heavier(tree, tree->heap[i], tree->heap[above]))
			break;
		const uint32_t moved = tree->heap[i];
		tree->heap[i] = tree->heap[above];
		tree->heap[above] = moved;
		i = above;
	}
}

static uint32_t heap_pop(struct flame_tree *tree)
{
	uint32_t *const heap = tree->heap;
	const uint32_t top = heap[0];

	heap[0] = heap[--tree->heap_count];
	for (size_t i = 0, below; (below = 2 * i + 1) < tree->heap_count; i = below) {
		if (below + 1 < tree->heap_count && is_heavier(tree, heap[below + 1], heap[below]))
			below++;
		if (!is_heavier(tree, heap[below], heap[i]))
			break;
		const uint32_t moved = heap[i];
		heap[i] = heap[below];
		heap[below] = moved;
	}
	return top;
}

/* Keeps the frame and finds its children. */
static void keep(struct flame_tree *tree, uint32_t at)
{
	tree->frames[at].is_kept = true;
	tree->kept_count++;
	sort_paths(tree, at);
	count_children(tree, at);
	scatter_children(tree, at);
}

static void push_children(struct flame_tree *tree, uint32_t at)
{
	const struct flame_frame frame = tree->frames[at];

	for (uint32_t i = 0; i < frame.child_count; i++)
		heap_push(tree, frame.first_child + i);
}

static void keep_heaviest(struct flame_tree *tree, size_t limit)
{
	for (; tree->heap_count > 0 && limit > 0; limit--) {
		const uint32_t at = heap_pop(tree);
		keep(tree, at);
		push_children(tree, at);
	}
}

/* In the order in which frames were found, which needs no heap. */
static void keep_all(struct flame_tree *tree)
{
	for (uint32_t at = 1; at < tree->frame_count; at++)
		keep(tree, at);
}

void flame_tree_init(struct flame_tree *tree, const struct view *view, bool is_inverted,
	const double *weights, size_t limit)
{
	*tree = (struct flame_tree){ .view = view, .is_inverted = is_inverted, .weights = weights };
	tree->paths = xreallocarray(NULL, view->path_count + 1, sizeof *tree->paths);
	tree->scratch = xreallocarray(NULL, view->path_count + 1, sizeof *tree->scratch);
	for (size_t i = 0; i < view->path_count; i++)
		tree->paths[i] = (uint32_t)i;
	tree->groups = xreallocarray(NULL, view->node_count + 1, sizeof *tree->groups);
	memset(tree->groups, 0xff, (view->node_count + 1) * sizeof *tree->groups);
	*XAPPEND(tree->frames, tree->frame_count, tree->frame_capacity) =
		(struct flame_frame){ .count = (uint32_t)view->path_count };
	keep(tree, 0);
	tree->kept_count = 0;
	if (limit == 0) {
		keep_all(tree);
		return;
	}
	push_children(tree, 0);
	keep_heaviest(tree, limit);
}

static const char *name_of(const struct flame_tree *tree, uint32_t node)
{
	return node < tree->view->node_count ? tree->view->nodes[node].name : "[no stack]";
}

/* The heaviest child of that name, or 0. */
static uint32_t find_child(
	const struct flame_tree *tree, uint32_t at, const char *name, size_t size)
{
	const struct flame_frame *const frame = &tree->frames[at];
	uint32_t found = 0;

	for (uint32_t i = frame->first_child; i < frame->first_child + frame->child_count; i++) {
		const char *const other = name_of(tree, tree->frames[i].node);
		if (strncmp(other, name, size) == 0 && other[size] == '\0' &&
			(found == 0 || is_heavier(tree, i, found)))
			found = i;
	}
	return found;
}

/* What is not kept below the frame competes for being kept. */
static void push_candidates(struct flame_tree *tree, uint32_t at)
{
	CLEANUP(free_cleanup) uint32_t *todo = NULL;
	size_t count = 0, capacity = 0;

	*XAPPEND(todo, count, capacity) = at;
	while (count > 0) {
		const struct flame_frame frame = tree->frames[todo[--count]];
		for (uint32_t i = frame.first_child; i < frame.first_child + frame.child_count;
			i++) {
			if (tree->frames[i].is_kept)
				*XAPPEND(todo, count, capacity) = i;
			else
				heap_push(tree, i);
		}
	}
}

void flame_tree_refine(struct flame_tree *tree, const char *names, size_t limit)
{
	uint32_t at = 0;

	while (*names != '\0') {
		const size_t size = strcspn(names, "\n");
		const uint32_t child = find_child(tree, at, names, size);
		if (child == 0)
			break;
		if (!tree->frames[child].is_kept)
			keep(tree, child);
		at = child;
		names += size + (names[size] == '\n');
	}
	tree->heap_count = 0;
	push_candidates(tree, at);
	keep_heaviest(tree, limit);
}

void flame_tree_deinit(struct flame_tree *tree)
{
	free(tree->paths);
	free(tree->scratch);
	free(tree->groups);
	free(tree->frames);
	free(tree->heap);
	*tree = (struct flame_tree){ 0 };
}

bool flame_tree_is_cut(const struct flame_tree *tree)
{
	for (size_t i = 0; i < tree->frame_count; i++) {
		if (!tree->frames[i].is_kept)
			return true;
	}
	return false;
}

/* A walk: frames to visit, the next one last, and the depth of the one before. */
struct walk {
	const struct flame_tree *tree;
	flame_visit *visit;
	void *context;
	uint32_t *todo;
	size_t todo_count, todo_capacity;
	uint32_t *rest; /* paths that are left out below a frame */
	size_t rest_count, rest_capacity;
	uint32_t last_depth;
};

static void visit(
	struct walk *walk, uint32_t node, uint32_t depth, const uint32_t *paths, size_t path_count)
{
	walk->visit(walk->context, node, walk->last_depth + 1 - depth, paths, path_count);
	walk->last_depth = depth;
}

/* Its children are to be visited next; then come those that were left out. */
static void visit_children(struct walk *walk, const struct flame_frame *frame)
{
	const struct flame_tree *const tree = walk->tree;

	for (uint32_t i = frame->child_count; i > 0; i--) {
		if (tree->frames[frame->first_child + i - 1].is_kept)
			*XAPPEND(walk->todo, walk->todo_count, walk->todo_capacity) =
				frame->first_child + i - 1;
	}
}

static void visit_rest(struct walk *walk, const struct flame_frame *frame)
{
	const struct flame_tree *const tree = walk->tree;

	walk->rest_count = 0;
	for (uint32_t i = 0; i < frame->child_count; i++) {
		const struct flame_frame *const child = &tree->frames[frame->first_child + i];
		for (uint32_t k = 0; !child->is_kept && k < child->count; k++)
			*XAPPEND(walk->rest, walk->rest_count, walk->rest_capacity) =
				tree->paths[child->first + k];
	}
	if (walk->rest_count > 0)
		visit(walk, flame_rest(tree->view), frame->depth + 1, walk->rest, walk->rest_count);
}

void flame_tree_walk(const struct flame_tree *tree, flame_visit *visit_frame, void *context)
{
	struct walk walk = { .tree = tree, .visit = visit_frame, .context = context };

	*XAPPEND(walk.todo, walk.todo_count, walk.todo_capacity) = 0;
	while (walk.todo_count > 0) {
		const uint32_t at = walk.todo[--walk.todo_count];
		const struct flame_frame *const frame = &tree->frames[at];
		if (at != 0)
			visit(&walk, frame->node, frame->depth, tree->paths + frame->first,
				frame->own);
		/* A walk visits parents first: the rest may come before its siblings. */
		visit_rest(&walk, frame);
		visit_children(&walk, frame);
	}
	free(walk.todo);
	free(walk.rest);
}
