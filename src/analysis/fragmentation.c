/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/fragmentation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/unsample.h"
#include "analysis/allocator_stats.h"
#include "base/xalloc.h"

/* Live objects of a path in a class. */
struct share {
	uint32_t path;
	uint32_t class;
	struct estimate objects;
};

struct shares {
	const struct fragmentation *fragmentation;
	struct share *items;
	size_t count, capacity;
};

static void shares_deinit(struct shares *shares)
{
	free(shares->items);
}

/* The classes that a line's objects are in, and how much of them is in each. */
struct placement {
	size_t classes[2];
	double parts[2];
};

/* False when they are in none. */
static bool place(const struct fragmentation *fragmentation, const struct estimate *estimates,
	struct placement *placement)
{
	const struct estimate objects = estimates[PROFILE_INUSE_OBJECTS];
	const double rounding = 1e-4;
	size_t above = 0;

	if (objects.value <= 0)
		return false;
	const double mean = estimates[PROFILE_INUSE_SPACE].value / objects.value;
	while (above < fragmentation->class_count &&
		fragmentation->classes[above].size < mean * (1 - rounding))
		above++;
	if (above == fragmentation->class_count)
		return false;
	const double high = fragmentation->classes[above].size;
	*placement = (struct placement){ { above, above }, { 1, 0 } };
	if (above == 0 || fabs(mean - high) <= mean * rounding)
		return true;
	const double low = fragmentation->classes[above - 1].size;
	const double part = fmin(fmax((mean - low) / (high - low), 0), 1);
	*placement = (struct placement){ { above, above - 1 }, { part, 1 - part } };
	return true;
}

static struct estimate part_of(struct estimate estimate, double part)
{
	return (struct estimate){ estimate.value * part, estimate.variance * part * part,
		estimate.samples * part };
}

static void observe(void *observer, size_t input, uint32_t stack, uint32_t path,
	const struct estimate *estimates)
{
	struct shares *const shares = observer;
	const struct estimate objects = estimates[PROFILE_INUSE_OBJECTS];
	struct placement placement;

	(void)input;
	(void)stack;
	if (!place(shares->fragmentation, estimates, &placement))
		return;
	for (int i = 0; i < 2; i++) {
		const double part = placement.parts[i];
		if (part <= 0)
			continue;
		*XAPPEND(shares->items, shares->count, shares->capacity) = (struct share){ path,
			(uint32_t)placement.classes[i], part_of(objects, part) };
	}
}

/* All live objects of each class, whatever the filter leaves of them. */
static struct estimate *count_objects(const struct fragmentation *fragmentation,
	const struct view_input *inputs, size_t input_count)
{
	struct estimate *const objects = xcalloc(fragmentation->class_count, sizeof *objects);

	for (size_t i = 0; i < input_count; i++) {
		const struct profile *const profile = inputs[i].profile;
		for (size_t s = 0; s < profile->sample_count; s++) {
			struct estimate estimates[PROFILE_COUNTERS];
			struct placement placement;
			unsample(profile, profile->samples[s].counters, estimates);
			if (!place(fragmentation, estimates, &placement))
				continue;
			for (int k = 0; k < 2; k++)
				estimate_add(&objects[placement.classes[k]],
					part_of(estimates[PROFILE_INUSE_OBJECTS],
						placement.parts[k]));
		}
	}
	return objects;
}

static void clear(struct view *view)
{
	for (size_t i = 0; i < view->path_count; i++) {
		view->paths[i].now[PROFILE_INUSE_SPACE] = (struct estimate){ 0 };
		view->paths[i].now[PROFILE_ALLOC_SPACE] = (struct estimate){ 0 };
		view->paths[i].now[PROFILE_ALLOC_OBJECTS] = (struct estimate){ 0 };
	}
	view->total[PROFILE_INUSE_SPACE] = 0;
}

static uint32_t add_class_node(struct view *view, double size)
{
	char name[64];

	snprintf(name, sizeof name, "%.0f-byte objects", size);
	return view_add_node(view, &(struct view_node){ .name = name });
}

/* The path with its class before its root. */
static struct view_path *add_path(struct view *view, uint32_t class_node, uint32_t path)
{
	const uint32_t depth = view->paths[path].depth;
	CLEANUP(free_cleanup) uint32_t *nodes = xcalloc(depth + 1, sizeof *nodes);

	nodes[0] = class_node;
	for (uint32_t i = 0; i < depth; i++)
		nodes[i + 1] = view->path_nodes[view->paths[path].first + i];
	return view_add_path(view, nodes, depth + 1);
}

static int by_owner(const void *a, const void *b)
{
	const struct share *const x = a, *const y = b;

	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	return (x->path > y->path) - (x->path < y->path);
}

/* One share for each path in a class. */
static void merge(struct shares *shares)
{
	size_t made = 0;

	if (shares->count == 0)
		return;
	qsort(shares->items, shares->count, sizeof *shares->items, by_owner);
	for (size_t i = 1; i < shares->count; i++) {
		if (by_owner(&shares->items[made], &shares->items[i]) == 0)
			estimate_add(&shares->items[made].objects, shares->items[i].objects);
		else
			shares->items[++made] = shares->items[i];
	}
	shares->count = made + 1;
}

/*
 * The fragmentation of a class is counted, only its shares are estimates: w = W x / (x + others).
 * Its variance by the derivatives to both, and for those that are there and were not sampled the
 * one of a share that n samples of n show (of Beta(n + 1, 1)).
 */
static struct estimate free_share(const struct share *share, double free_bytes, struct estimate all)
{
	const double each = free_bytes / all.value, part = share->objects.value / all.value;
	const double own = share->objects.variance, others = fmax(all.variance - own, 0);
	const double unseen = free_bytes / (all.samples + 2);

	return (struct estimate){ share->objects.value * each,
		each * each * ((1 - part) * (1 - part) * own + part * part * others) +
			unseen * unseen,
		0 };
}

static void share_out(struct view *view, struct shares *shares, const struct estimate *objects)
{
	const struct fragmentation_class *const classes = shares->fragmentation->classes;
	/* What stays without an owner gets a node that says so. */
	const uint32_t unattributed =
		view_add_node(view, &(struct view_node){ .name = "(no sampled object)" });
	size_t at = 0;

	clear(view);
	merge(shares);
	for (uint32_t i = 0; i < shares->fragmentation->class_count; i++) {
		const double bytes = classes[i].free_bytes;
		view->total[PROFILE_INUSE_SPACE] += bytes;
		if (bytes <= 0)
			continue;
		const uint32_t node = add_class_node(view, classes[i].size);
		while (at < shares->count && shares->items[at].class < i)
			at++;
		for (; at < shares->count && shares->items[at].class == i; at++)
			estimate_add(&add_path(view, node, shares->items[at].path)
					      ->now[PROFILE_INUSE_SPACE],
				free_share(&shares->items[at], bytes, objects[i]));
		if (objects[i].value <= 0)
			estimate_add(
				&view_add_path(view, (const uint32_t[]){ node, unattributed }, 2)
					 ->now[PROFILE_INUSE_SPACE],
				(struct estimate){ bytes, 0, 0 });
	}
	view->label = "free in slabs";
}

bool fragmentation_classes_read(const char *name, const json_t *document,
	struct fragmentation_class **classes, size_t *count, struct error *err)
{
	struct allocator_stats stats = { 0 };

	if (!allocator_stats_add_classes(&stats, document, err))
		return false;
	if (stats.class_count == 0)
		return error_set(err, ERROR_INPUT, "%s has no statistics of size classes", name);
	*classes = xcalloc(stats.class_count, sizeof **classes);
	*count = 0;
	for (size_t i = 0; i < stats.class_count; i++) {
		const struct size_class *const class = &stats.classes[i];
		if (class->is_large ||
			(*count != 0 && (double)class->size <= (*classes)[*count - 1].size))
			continue;
		(*classes)[(*count)++] = (struct fragmentation_class){ (double)class->size,
			class->held_bytes > class->allocated_bytes
				? (double)(class->held_bytes - class->allocated_bytes)
				: 0 };
	}
	allocator_stats_deinit(&stats);
	return true;
}

bool fragmentation_build(const struct fragmentation *fragmentation, const struct view_input *inputs,
	size_t input_count, const struct view_request *request, struct view **ret,
	struct error *err)
{
	CLEANUP(shares_deinit) struct shares shares = { .fragmentation = fragmentation };
	struct view_request asked = *request;

	asked.counter = PROFILE_INUSE_SPACE;
	asked.observe = observe;
	asked.observer = &shares;
	if (!view_build(inputs, input_count, &asked, ret, err))
		return false;
	CLEANUP(free_cleanup)
	struct estimate *objects = count_objects(fragmentation, inputs, input_count);
	share_out(*ret, &shares, objects);
	return true;
}
