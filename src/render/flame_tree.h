/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of a view as a tree, for flame graphs: paths that begin alike share their frames, or,
 * inverted, those that end alike. A profile may have millions of frames and a screen a thousand
 * pixels, so the tree may be cut to the frames with the most in them: what it leaves out below a
 * frame is together in one frame of FLAME_REST, so that all sums stay what they are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/view.h"

struct flame_frame {
	uint32_t node;	/* of the view; its node_count is "no stack", one more is "the rest" */
	uint32_t first; /* its paths in flame_tree.paths; the first `own` of them end here */
	uint32_t count, own;
	uint32_t depth;
	uint32_t first_child, child_count; /* kept or not */
	double weight;
	bool is_kept;
};

struct flame_tree {
	const struct view *view;
	bool is_inverted;
	const double *weights;	    /* of the view's paths; borrowed */
	uint32_t *paths;	    /* positions in the view, those of a frame side by side */
	uint32_t *scratch;	    /* as many */
	uint32_t *groups;	    /* of a node's children while they are counted */
	struct flame_frame *frames; /* the first is the root, which stands for everything */
	size_t frame_count, frame_capacity;
	size_t kept_count; /* without the root */
	uint32_t *heap;	   /* frames that may be kept next, the heaviest first */
	size_t heap_count, heap_capacity;
};

static inline uint32_t flame_no_stack(const struct view *view)
{
	return (uint32_t)view->node_count;
}

static inline uint32_t flame_rest(const struct view *view)
{
	return (uint32_t)view->node_count + 1;
}

/*
 * `limit` is the maximum number of frames to keep, 0 for all; `weights` are those of the paths and
 * are never negative. Release with flame_tree_deinit.
 */
void flame_tree_init(struct flame_tree *tree, const struct view *view, bool is_inverted,
	const double *weights, size_t limit);

/*
 * Keeps the frames on the way of these names, separated by line breaks, from the root, and up to
 * `limit` more below the last one that is there.
 */
void flame_tree_refine(struct flame_tree *tree, const char *names, size_t limit);

void flame_tree_deinit(struct flame_tree *tree);

/* Whether some frames are not kept. */
bool flame_tree_is_cut(const struct flame_tree *tree);

/*
 * Visits the kept frames, parents first, then what is left out below each. `up` is how many levels
 * above the frame before the parent is. The values of the frame itself are those of `paths`.
 */
typedef void flame_visit(
	void *context, uint32_t node, uint32_t up, const uint32_t *paths, size_t path_count);
void flame_tree_walk(const struct flame_tree *tree, flame_visit *visit, void *context);
