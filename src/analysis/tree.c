/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

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
