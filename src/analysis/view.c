/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/view.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

const char *const view_granularity_names[] = {
	[VIEW_FUNCTIONS] = "functions",
	[VIEW_FILE_FUNCTIONS] = "filefunctions",
	[VIEW_LINES] = "lines",
	[VIEW_FILES] = "files",
	[VIEW_ADDRESSES] = "addresses",
	[VIEW_GRANULARITIES] = NULL,
};

static const struct estimate no_base[PROFILE_COUNTERS];

struct view *view_new(enum profile_kind kind, enum view_granularity granularity)
{
	struct view *const view = xcalloc(1, sizeof *view);

	view->kind = kind;
	view->granularity = granularity;
	view->counter = PROFILE_INUSE_SPACE;
	view->title = "";
	view->subtitle = "";
	view->sampling = "";
	string_pool_init(&view->strings);
	arena_init(&view->bases);
	hash_index_init(&view->path_index);
	return view;
}

void view_free(struct view *view)
{
	if (view == NULL)
		return;
	free(view->nodes);
	free(view->path_nodes);
	free(view->paths);
	free(view->totals);
	hash_index_deinit(&view->path_index);
	string_pool_deinit(&view->strings);
	arena_deinit(&view->bases);
	free(view);
}

static const char *keep(struct view *view, const char *text)
{
	return string_pool_add(&view->strings, text == NULL ? "" : text);
}

uint32_t view_add_own_node(struct view *view, const struct view_node *node)
{
	const uint32_t position = (uint32_t)view->node_count;

	*XAPPEND(view->nodes, view->node_count, view->node_capacity) = *node;
	return position;
}

uint32_t view_add_node(struct view *view, const struct view_node *node)
{
	struct view_node own = *node;

	own.name = keep(view, node->name);
	own.function = keep(view, node->function);
	own.file = keep(view, node->file);
	own.module = keep(view, node->module);
	return view_add_own_node(view, &own);
}

struct view_path_key {
	const uint32_t *nodes;
	size_t depth;
};

static bool is_path(const void *items, uint32_t position, const void *key)
{
	const struct view *const view = items;
	const struct view_path_key *const wanted = key;
	const struct view_path *const path = &view->paths[position];

	return path->depth == wanted->depth &&
	       (path->depth == 0 || memcmp(view->path_nodes + path->first, wanted->nodes,
					    path->depth * sizeof *wanted->nodes) == 0);
}

static struct view_path *append_path(struct view *view, const uint32_t *nodes, size_t depth)
{
	view->path_nodes = xgrow(view->path_nodes, &view->path_node_capacity,
		view->path_node_count + depth, sizeof *view->path_nodes);
	view->paths =
		xgrow(view->paths, &view->path_capacity, view->path_count + 1, sizeof *view->paths);
	if (depth != 0)
		memcpy(view->path_nodes + view->path_node_count, nodes, depth * sizeof *nodes);
	struct view_path *const path = &view->paths[view->path_count++];
	*path = (struct view_path){
		.first = view->path_node_count, .depth = (uint32_t)depth, .base = no_base
	};
	view->path_node_count += depth;
	return path;
}

uint64_t view_prepare_path(const struct view *view, const uint32_t *nodes, size_t depth)
{
	const uint64_t hash = hash_bytes(nodes, depth * sizeof *nodes);

	hash_index_prefetch(&view->path_index, hash);
	return hash;
}

struct view_path *view_add_path(struct view *view, const uint32_t *nodes, size_t depth)
{
	return view_add_prepared_path(view, view_prepare_path(view, nodes, depth), nodes, depth);
}

struct view_path *view_add_prepared_path(
	struct view *view, uint64_t hash, const uint32_t *nodes, size_t depth)
{
	const struct view_path_key key = { nodes, depth };
	const uint32_t found = hash_index_add(
		&view->path_index, hash, is_path, view, &key, (uint32_t)view->path_count);

	return found != HASH_INDEX_NONE ? &view->paths[found] : append_path(view, nodes, depth);
}

struct estimate *view_path_base(struct view *view, struct view_path *path)
{
	const size_t size = sizeof no_base;

	if (path->base == no_base)
		path->base = memset(arena_alloc(&view->bases, size, sizeof(double)), 0, size);
	return (struct estimate *)(uintptr_t)path->base;
}

struct estimate view_path_estimate(
	const struct view *view, const struct view_path *path, enum profile_counter counter)
{
	if (!view->is_difference)
		return path->now[counter];
	return estimate_difference(path->now[counter], path->base[counter]);
}

enum side { SIDE_SHOWN, SIDE_NOW, SIDE_BASE };

static struct estimate side_estimate(const struct view *view, const struct view_path *path,
	enum profile_counter counter, enum side side)
{
	switch (side) {
	case SIDE_NOW:
		return path->now[counter];
	case SIDE_BASE:
		return path->base[counter];
	case SIDE_SHOWN:
		break;
	}
	return view_path_estimate(view, path, counter);
}

static struct view_totals *sum_nodes(
	const struct view *view, enum profile_counter counter, enum side side)
{
	struct view_totals *const totals = xcalloc(view->node_count, sizeof *totals);
	CLEANUP(free_cleanup) uint32_t *seen_by = xcalloc(view->node_count, sizeof *seen_by);

	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		const uint32_t *const nodes = view->path_nodes + path->first;
		const struct estimate estimate = side_estimate(view, path, counter, side);
		if (path->depth == 0)
			continue;
		estimate_add(&totals[nodes[path->depth - 1]].flat, estimate);
		for (uint32_t at = 0; at < path->depth; at++) {
			if (seen_by[nodes[at]] == i + 1)
				continue;
			seen_by[nodes[at]] = (uint32_t)(i + 1);
			estimate_add(&totals[nodes[at]].cumulative, estimate);
		}
	}
	return totals;
}

struct view_totals *view_sum_nodes(const struct view *view, enum profile_counter counter)
{
	if (view->totals == NULL)
		return sum_nodes(view, counter, SIDE_SHOWN);
	assert(counter == view->counter);
	struct view_totals *const totals = xreallocarray(NULL, view->node_count, sizeof *totals);
	if (view->node_count != 0)
		memcpy(totals, view->totals, view->node_count * sizeof *totals);
	return totals;
}

struct view_totals *view_sum_side(
	const struct view *view, enum profile_counter counter, bool is_base)
{
	return sum_nodes(view, counter, is_base ? SIDE_BASE : SIDE_NOW);
}

struct estimate view_sum(const struct view *view, enum profile_counter counter)
{
	struct estimate sum = { 0 };

	for (size_t i = 0; i < view->path_count; i++)
		estimate_add(&sum, view_path_estimate(view, &view->paths[i], counter));
	return sum;
}

double view_whole(const struct view *view, enum profile_counter counter)
{
	double whole = view->whole;

	if (view->shares_are_of_all && !view->is_difference)
		return view->total[counter];
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		if (path->depth == 0)
			continue;
		const double value = view_path_estimate(view, path, counter).value;
		whole += view->is_difference ? fabs(value) : value;
	}
	return whole;
}

static void estimate_divide(struct estimate *estimate, double divisor)
{
	estimate->value /= divisor;
	estimate->variance /= divisor * divisor;
}

void view_divide(struct view *view, double divisor)
{
	for (int c = 0; c < PROFILE_COUNTERS; c++) {
		for (size_t i = 0; i < view->path_count; i++) {
			struct view_path *const path = &view->paths[i];
			estimate_divide(&path->now[c], divisor);
			/* Paths without a base share one of zeros. */
			if (path->base[c].value != 0 || path->base[c].variance != 0)
				estimate_divide(&view_path_base(view, path)[c], divisor);
		}
		view->total[c] /= divisor;
		view->base_total[c] /= divisor;
	}
	for (size_t i = 0; view->totals != NULL && i < view->node_count; i++) {
		estimate_divide(&view->totals[i].flat, divisor);
		estimate_divide(&view->totals[i].cumulative, divisor);
	}
	view->whole /= divisor;
}
