/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/view_builder.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/modules.h"
#include "analysis/node_maker.h"
#include "analysis/node_totals.h"
#include "analysis/stack_picker.h"
#include "analysis/unsample.h"
#include "base/xalloc.h"

#define NOT_MADE UINT32_MAX
#define LEFT_OUT (UINT32_MAX - 1)

/* The nodes of one location of the current profile. */
struct node_span {
	uint32_t first; /* the node itself if it is one, else where in builder.nodes they begin */
	uint32_t count;
};

/* Nodes of a path, root first. */
struct node_list {
	uint32_t *items;
	size_t count, capacity;
};

/* A sample whose path was prepared; it is added when the next one is. */
struct pending {
	bool is_there;
	uint32_t stack;
	uint64_t hash;	       /* of the nodes, if the stack has no path yet */
	struct node_list list; /* of its path, likewise */
	struct estimate estimates[PROFILE_COUNTERS];
};

struct builder {
	const struct view_request *request;
	struct view *view;
	struct node_maker *maker;
	struct stack_picker picker;
	struct module_table modules;

	/* Of the current profile. */
	const struct profile *profile;
	size_t input;
	bool is_base;
	struct node_span *spans; /* for each location */
	uint32_t *nodes;
	size_t node_count, node_capacity;
	uint32_t *paths; /* for each stack its path in the view, NOT_MADE or LEFT_OUT */

	struct pending pending;
	struct node_totals totals; /* if nothing else is wanted */
	struct node_list scratch;
};

static void builder_init(struct builder *builder, const struct view_request *request,
	enum profile_kind kind, struct node_rules rules)
{
	*builder = (struct builder){ .request = request };
	builder->view = view_new(kind, request->granularity);
	builder->view->counter = request->counter;
	module_table_init(&builder->modules);
	builder->maker = node_maker_new(builder->view, request->filter, &builder->modules, rules);
	stack_picker_init(&builder->picker, request->filter, request->keep_allocator_frames);
}

static void builder_deinit(struct builder *builder)
{
	view_free(builder->view);
	node_maker_free(builder->maker);
	stack_picker_deinit(&builder->picker);
	module_table_deinit(&builder->modules);
	free(builder->spans);
	free(builder->nodes);
	free(builder->paths);
	free(builder->pending.list.items);
	free(builder->scratch.items);
	node_totals_deinit(&builder->totals);
}

static void enter_profile(
	struct builder *builder, const struct view_input *input, const struct module_place *places)
{
	const struct profile *const profile = input->profile;

	builder->profile = profile;
	builder->is_base = input->is_base;
	builder->node_count = 0;
	node_maker_enter(builder->maker, profile, places);
	stack_picker_enter(&builder->picker, profile);
	builder->spans =
		xreallocarray(builder->spans, profile->location_count, sizeof *builder->spans);
	for (size_t i = 0; i < profile->location_count; i++)
		builder->spans[i].first = NOT_MADE;
	if (builder->request->totals_only)
		return;
	builder->paths =
		xreallocarray(builder->paths, profile->stack_count, sizeof *builder->paths);
	for (size_t i = 0; i < profile->stack_count; i++)
		builder->paths[i] = NOT_MADE;
}

/* Only locations that are shown get nodes. */
static struct node_span make_span(struct builder *builder, uint32_t location)
{
	const uint32_t *nodes = NULL;
	const size_t count =
		node_maker_make(builder->maker, &builder->profile->locations[location], &nodes);
	const size_t first = builder->node_count;

	if (count == 1)
		return (struct node_span){ nodes[0], 1 };
	builder->nodes = xgrow(
		builder->nodes, &builder->node_capacity, first + count, sizeof *builder->nodes);
	for (size_t i = 0; i < count; i++)
		builder->nodes[builder->node_count++] = nodes[i];
	return (struct node_span){ (uint32_t)first, (uint32_t)count };
}

static inline struct node_span span_of(struct builder *builder, uint32_t location)
{
	struct node_span *const span = &builder->spans[location];

	if (__builtin_expect(span->first == NOT_MADE, false))
		*span = make_span(builder, location);
	return *span;
}

/* Puts the nodes of these locations, leaf first, into scratch, root first. */
static void gather_nodes(struct builder *builder, const uint32_t *locations, size_t depth)
{
	struct node_list *const list = &builder->scratch;

	list->count = 0;
	for (size_t i = depth; i-- > 0;) {
		const struct node_span span = span_of(builder, locations[i]);
		list->items = xgrow(list->items, &list->capacity, list->count + span.count,
			sizeof *list->items);
		if (span.count == 1) {
			list->items[list->count++] = span.first;
			continue;
		}
		for (uint32_t n = 0; n < span.count; n++)
			list->items[list->count++] = builder->nodes[span.first + n];
	}
}

/* Puts the path of a stack into scratch; false when the stack is left out. */
static bool gather_path(struct builder *builder, const struct profile_stack *stack)
{
	const uint32_t *locations = NULL;
	size_t depth = 0;

	if (!stack_picker_pick(&builder->picker, stack, &locations, &depth))
		return false;
	gather_nodes(builder, locations, depth);
	return builder->scratch.count != 0 || !filter_drops_empty(builder->request->filter);
}

static void add_pending(struct builder *builder)
{
	struct pending *const pending = &builder->pending;
	struct view *const view = builder->view;
	const struct node_list *const list = &pending->list;

	if (!pending->is_there)
		return;
	pending->is_there = false;
	if (builder->request->totals_only) {
		node_totals_add(&builder->totals, list->items, list->count,
			pending->estimates[view->counter]);
		return;
	}
	uint32_t *const at = &builder->paths[pending->stack];
	if (*at == NOT_MADE)
		*at = (uint32_t)(view_add_prepared_path(
					 view, pending->hash, list->items, list->count) -
				 view->paths);
	struct view_path *const path = &view->paths[*at];
	struct estimate *const sums = builder->is_base ? view_path_base(view, path) : path->now;
	for (int i = 0; i < PROFILE_COUNTERS; i++)
		estimate_add(&sums[i], pending->estimates[i]);
	if (builder->request->observe != NULL)
		builder->request->observe(
			builder->request->observer, builder->input, *at, pending->estimates);
}

/* Makes the path in scratch the pending one; the one before it is added meanwhile. */
static void make_pending(struct builder *builder, uint32_t stack, uint64_t hash,
	const struct estimate estimates[PROFILE_COUNTERS])
{
	struct pending *const pending = &builder->pending;

	add_pending(builder);
	const struct node_list prepared = builder->scratch;
	builder->scratch = pending->list;
	*pending = (struct pending){
		.is_there = true, .stack = stack, .hash = hash, .list = prepared
	};
	memcpy(pending->estimates, estimates, sizeof pending->estimates);
}

static void add_to_path(
	struct builder *builder, uint32_t stack, const struct estimate estimates[PROFILE_COUNTERS])
{
	const struct node_list *const list = &builder->scratch;
	uint64_t hash = 0;

	if (builder->paths[stack] == NOT_MADE) {
		if (!gather_path(builder, &builder->profile->stacks[stack]))
			builder->paths[stack] = LEFT_OUT;
		else
			hash = view_prepare_path(builder->view, list->items, list->count);
	}
	if (builder->paths[stack] != LEFT_OUT)
		make_pending(builder, stack, hash, estimates);
}

static void add_to_nodes(
	struct builder *builder, uint32_t stack, const struct estimate estimates[PROFILE_COUNTERS])
{
	const struct node_list *const list = &builder->scratch;

	if (!gather_path(builder, &builder->profile->stacks[stack]))
		return;
	node_totals_prepare(&builder->totals, builder->view->node_count, list->items, list->count);
	make_pending(builder, stack, 0, estimates);
}

static void add_sample(struct builder *builder, const struct profile_sample *sample)
{
	struct view *const view = builder->view;
	struct filter *const filter = builder->request->filter;
	double *const totals = builder->is_base ? view->base_total : view->total;
	struct estimate estimates[PROFILE_COUNTERS];

	if (!filter_takes_thread(filter, builder->profile, sample))
		return;
	unsample(builder->profile, sample->counters, estimates);
	if (builder->request->mean_delay && estimates[PROFILE_INUSE_OBJECTS].value > 0)
		estimates[PROFILE_INUSE_SPACE].value /= estimates[PROFILE_INUSE_OBJECTS].value;
	for (int i = 0; i < PROFILE_COUNTERS; i++)
		totals[i] += estimates[i].value;
	if (!filter_takes(filter, builder->profile, sample))
		return;
	if (builder->request->totals_only)
		add_to_nodes(builder, sample->stack, estimates);
	else
		add_to_path(builder, sample->stack, estimates);
}

static bool add_profile(struct builder *builder, const struct view_input *input,
	const struct module_place *places, struct error *err)
{
	const struct profile_sample *samples = NULL;
	size_t count = 0;

	enter_profile(builder, input, places);
	if (!stack_picker_samples(&builder->picker, &samples, &count, err))
		return false;
	for (size_t i = 0; i < count; i++)
		add_sample(builder, &samples[i]);
	add_pending(builder);
	return true;
}

static bool add_profiles(
	struct builder *builder, const struct view_input *inputs, size_t count, struct error *err)
{
	CLEANUP(free_cleanup) struct module_place **places = xcalloc(count, sizeof(void *));
	bool done = true;

	/* All of them first: whether modules differ decides what is the same node. */
	for (size_t i = 0; i < count; i++)
		places[i] = module_table_add(&builder->modules, inputs[i].profile);
	for (size_t i = 0; done && i < count; i++) {
		builder->input = i;
		done = add_profile(builder, &inputs[i], places[i], err);
	}
	for (size_t i = 0; i < count; i++)
		free(places[i]);
	return done;
}

/* Clamps what shrank: nothing is left of it on either side, nor in the totals. */
static void drop_negative(struct view *view)
{
	for (size_t i = 0; i < view->path_count; i++) {
		struct view_path *const path = &view->paths[i];
		struct estimate *const base = view_path_base(view, path);
		for (int c = 0; c < PROFILE_COUNTERS; c++) {
			if (path->now[c].value >= base[c].value)
				continue;
			view->total[c] -= path->now[c].value;
			view->base_total[c] -= base[c].value;
			path->now[c] = base[c] = (struct estimate){ 0 };
		}
	}
}

bool view_check_inputs(const struct view_input *inputs, size_t count, struct error *err)
{
	const struct profile *const first = inputs[0].profile;

	for (size_t i = 1; i < count; i++) {
		if (inputs[i].profile->kind != first->kind)
			return error_set(err, ERROR_USAGE,
				"%.120s and %.120s are of different kinds and cannot be put "
				"together",
				first->name, inputs[i].profile->name);
	}
	return true;
}

/* Where only some inputs know modules, functions can only meet by their names. */
static bool has_modules_in_part(const struct view_input *inputs, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if ((inputs[i].profile->mapping_count == 0) !=
			(inputs[0].profile->mapping_count == 0))
			return true;
	}
	return false;
}

static void describe(struct view *view, const struct view_input *inputs, size_t count,
	const struct view_request *request)
{
	view->title = string_pool_add(&view->strings, request->title == NULL ? "" : request->title);
	view->subtitle =
		string_pool_add(&view->strings, request->subtitle == NULL ? "" : request->subtitle);
	for (size_t i = 0; i < count; i++) {
		view->is_difference |= inputs[i].is_base;
		if (!inputs[i].is_base && view->interval_bytes == 0)
			view->interval_bytes = inputs[i].profile->interval_bytes;
	}
}

bool view_build(const struct view_input *inputs, size_t input_count,
	const struct view_request *request, struct view **ret, struct error *err)
{
	const struct node_rules rules = {
		.no_inlines = request->no_inlines,
		.regardless_of_module = has_modules_in_part(inputs, input_count),
	};

	if (!view_check_inputs(inputs, input_count, err))
		return false;
	CLEANUP(builder_deinit) struct builder builder;
	builder_init(&builder, request, inputs[0].profile->kind, rules);
	if (!add_profiles(&builder, inputs, input_count, err))
		return false;
	if (!filter_check(request->filter, err))
		return false;
	node_maker_finish(builder.maker);
	if (request->totals_only) {
		builder.view->totals = node_totals_take(&builder.totals);
		builder.view->whole = builder.totals.whole;
	}
	describe(builder.view, inputs, input_count, request);
	if (request->drop_negative && builder.view->is_difference)
		drop_negative(builder.view);
	*ret = TAKE(builder.view);
	return true;
}
