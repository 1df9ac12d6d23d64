/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/waste.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/unsample.h"
#include "base/xalloc.h"

/* Live objects of a path in a class. */
struct share {
	uint32_t path;
	uint32_t class;
	struct estimate objects;
};

struct shares {
	const struct waste *waste;
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
static bool place(
	const struct waste *waste, const struct estimate *estimates, struct placement *placement)
{
	const struct estimate objects = estimates[PROFILE_INUSE_OBJECTS];
	const double rounding = 1e-4;
	size_t above = 0;

	if (objects.value <= 0)
		return false;
	const double mean = estimates[PROFILE_INUSE_SPACE].value / objects.value;
	while (above < waste->class_count && waste->classes[above].size < mean * (1 - rounding))
		above++;
	if (above == waste->class_count)
		return false;
	const double high = waste->classes[above].size;
	*placement = (struct placement){ { above, above }, { 1, 0 } };
	if (above == 0 || fabs(mean - high) <= mean * rounding)
		return true;
	const double low = waste->classes[above - 1].size;
	const double part = fmin(fmax((mean - low) / (high - low), 0), 1);
	*placement = (struct placement){ { above, above - 1 }, { part, 1 - part } };
	return true;
}

static struct estimate part_of(struct estimate estimate, double part)
{
	return (struct estimate){ estimate.value * part, estimate.variance * part * part,
		estimate.samples * part };
}

static void observe(void *observer, size_t input, uint32_t path, const struct estimate *estimates)
{
	struct shares *const shares = observer;
	const struct estimate objects = estimates[PROFILE_INUSE_OBJECTS];
	struct placement placement;

	(void)input;
	if (!place(shares->waste, estimates, &placement))
		return;
	for (int i = 0; i < 2; i++) {
		const double part = placement.parts[i];
		if (part <= 0)
			continue;
		shares->items = xgrow(
			shares->items, &shares->capacity, shares->count + 1, sizeof *shares->items);
		shares->items[shares->count++] = (struct share){ path,
			(uint32_t)placement.classes[i], part_of(objects, part) };
	}
}

/* All live objects of each class, whatever the filter leaves of them. */
static struct estimate *count_objects(
	const struct waste *waste, const struct view_input *inputs, size_t input_count)
{
	struct estimate *const objects = xcalloc(waste->class_count, sizeof *objects);

	for (size_t i = 0; i < input_count; i++) {
		const struct profile *const profile = inputs[i].profile;
		for (size_t s = 0; s < profile->sample_count; s++) {
			struct estimate estimates[PROFILE_COUNTERS];
			struct placement placement;
			unsample(profile, profile->samples[s].counters, estimates);
			if (!place(waste, estimates, &placement))
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

static void add_to_path(struct view_path *path, double bytes, double variance, double samples)
{
	estimate_add(
		&path->now[PROFILE_INUSE_SPACE], (struct estimate){ bytes, variance, samples });
}

/* What stays without an owner gets a node that says so. */
static void add_orphans(struct view *view, double bytes)
{
	const struct view_node node = { .name = "(classes without a sampled object)" };

	if (bytes <= 0)
		return;
	const uint32_t at = view_add_node(view, &node);
	add_to_path(view_add_path(view, &at, 1), bytes, 0, 0);
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
 * The waste of a class is counted, only its shares are estimates: w = W x / (x + others). Its
 * variance by the derivatives to both, and for those that are there and were not sampled the
 * one of a share that n samples of n show (of Beta(n + 1, 1)).
 */
static void add_share(
	struct view *view, const struct share *share, double waste_bytes, struct estimate all)
{
	const double each = waste_bytes / all.value, part = share->objects.value / all.value;
	const double own = share->objects.variance, others = fmax(all.variance - own, 0);
	const double unseen = waste_bytes / (all.samples + 2);

	add_to_path(&view->paths[share->path], share->objects.value * each,
		each * each * ((1 - part) * (1 - part) * own + part * part * others) +
			unseen * unseen,
		0);
}

static void share_out(struct view *view, struct shares *shares, const struct estimate *objects)
{
	const struct waste *const waste = shares->waste;
	double orphans = 0;

	clear(view);
	merge(shares);
	for (size_t i = 0; i < shares->count; i++) {
		const uint32_t class = shares->items[i].class;
		add_share(
			view, &shares->items[i], waste->classes[class].waste_bytes, objects[class]);
	}
	for (size_t i = 0; i < waste->class_count; i++) {
		view->total[PROFILE_INUSE_SPACE] += waste->classes[i].waste_bytes;
		if (objects[i].value <= 0)
			orphans += waste->classes[i].waste_bytes;
	}
	add_orphans(view, orphans);
	view->label = "free in slabs";
}

bool waste_build(const struct waste *waste, const struct view_input *inputs, size_t input_count,
	const struct view_request *request, struct view **ret, struct error *err)
{
	CLEANUP(shares_deinit) struct shares shares = { .waste = waste };
	struct view_request asked = *request;

	asked.counter = PROFILE_INUSE_SPACE;
	asked.observe = observe;
	asked.observer = &shares;
	if (!view_build(inputs, input_count, &asked, ret, err))
		return false;
	CLEANUP(free_cleanup) struct estimate *objects = count_objects(waste, inputs, input_count);
	share_out(*ret, &shares, objects);
	return true;
}
