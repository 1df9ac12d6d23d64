/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree of a view: paths that begin alike share their beginning. Root first, or leaf first
 * when inverted (who calls this, and from where).
 */
#pragma once

#include "analysis/view.h"

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
	struct hash_index index;
};

/* Siblings are in falling order of |total - base_total|, then by name. */
struct tree *tree_new(const struct view *view, enum profile_counter counter, bool is_inverted);
void tree_free(struct tree *tree);

static inline void tree_cleanup(struct tree **tree)
{
	tree_free(*tree);
}
