/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/view_builder.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/modules.h"
#include "analysis/node_builder.h"
#include "analysis/filter.h"
#include "analysis/unsample.h"
#include "base/xalloc.h"

#define NOT_MADE UINT32_MAX
#define LEFT_OUT (UINT32_MAX - 1)

/* Adding that many samples takes longer than to fetch a stack from memory. */
enum { SAMPLES_AHEAD = 8 };

/* The nodes of one location of the current profile: nearly always it is one. */
struct node_span {
	uint32_t first; /* the node itself if it is one, else where in builder.nodes they begin */
	uint32_t count; /* not 1 while first is NOT_MADE */
};

/* Nodes of a path, root first. */
struct node_list {
	uint32_t *items;
	size_t count, capacity;
};

/*
 * A sample and its path. It is prepared, and added only when the next one was prepared: what it
 * needs of the memory is fetched meanwhile.
 */
struct line {
	bool is_prepared;
	uint32_t stack;
	uint64_t hash;	       /* of the nodes, if the stack has no path yet */
	struct node_list list; /* of its path, likewise */
	struct estimate estimates[PROFILE_COUNTERS];
};

struct view_builder {
	const struct view_request *request;
	struct view *view;
	struct node_builder *node_builder;
	struct stack_filter stack_filter;
	struct module_table modules;

	/* Of the current profile. */
	const struct profile *profile;
	size_t input;
	bool is_base;
	bool has_usual_stacks;	 /* see gather_usual */
	struct node_span *spans; /* for each location */
	uint32_t *nodes;
	size_t node_count, node_capacity;
	uint32_t *paths; /* for each stack its path in the view, NOT_MADE or LEFT_OUT */

	struct line lines[2];
	struct line *line;	   /* the one that is being prepared */
	struct line *prepared;	   /* the other: the one before it */
	struct node_totals totals; /* if nothing else is wanted */
};

static void builder_init(struct view_builder *builder, const struct view_request *request,
	enum profile_kind kind, struct node_rules rules)
{
	*builder = (struct view_builder){ .request = request };
	builder->line = &builder->lines[0];
	builder->prepared = &builder->lines[1];
	builder->view = view_new(kind, request->granularity);
	builder->view->counter = request->counter;
	module_table_init(&builder->modules);
	builder->node_builder =
		node_builder_new(builder->view, request->filter, &builder->modules, rules);
	stack_filter_init(&builder->stack_filter, request->filter, request->pruning);
}

static void builder_deinit(struct view_builder *builder)
{
	view_free(builder->view);
	node_builder_free(builder->node_builder);
	stack_filter_deinit(&builder->stack_filter);
	module_table_deinit(&builder->modules);
	free(builder->spans);
	free(builder->nodes);
	free(builder->paths);
	free(builder->lines[0].list.items);
	free(builder->lines[1].list.items);
	node_totals_deinit(&builder->totals);
}

static void enter_profile(struct view_builder *builder, const struct view_input *input,
	const struct module_place *places)
{
	const struct profile *const profile = input->profile;

	builder->profile = profile;
	builder->is_base = input->is_base;
	builder->has_usual_stacks = profile->kind != PROFILE_CPU &&
				    !filter_has_focus(builder->request->filter) &&
				    !filter_cuts_stacks(builder->request->filter);
	builder->node_count = 0;
	node_builder_enter(builder->node_builder, profile, places);
	stack_filter_enter(&builder->stack_filter, profile);
	builder->spans =
		xreallocarray(builder->spans, profile->location_count, sizeof *builder->spans);
	for (size_t i = 0; i < profile->location_count; i++)
		builder->spans[i] = (struct node_span){ .first = NOT_MADE };
	if (builder->request->totals_only)
		return;
	builder->paths =
		xreallocarray(builder->paths, profile->stack_count, sizeof *builder->paths);
	for (size_t i = 0; i < profile->stack_count; i++)
		builder->paths[i] = NOT_MADE;
}

/* Only locations that are shown get nodes. */
static struct node_span make_span(struct view_builder *builder, uint32_t location)
{
	const uint32_t *nodes = NULL;
	const struct profile_location shown =
		stack_filter_location(&builder->stack_filter, location);
	const size_t count = node_builder_make(builder->node_builder, &shown, &nodes);
	const size_t first = builder->node_count;

	if (count == 1)
		return (struct node_span){ nodes[0], 1 };
	builder->nodes = xgrow(
		builder->nodes, &builder->node_capacity, first + count, sizeof *builder->nodes);
	for (size_t i = 0; i < count; i++)
		builder->nodes[builder->node_count++] = nodes[i];
	return (struct node_span){ (uint32_t)first, (uint32_t)count };
}

/* Appends what is not just one node: several, none, or not made yet. `left` more locations come. */
static void append_nodes(struct view_builder *builder, uint32_t location, size_t left)
{
	struct node_list *const list = &builder->line->list;
	struct node_span *const span = &builder->spans[location];

	if (span->first == NOT_MADE)
		*span = make_span(builder, location);
	if (builder->request->totals_only)
		node_totals_make_room(&builder->totals, builder->view->node_count);
	list->items = xgrow(list->items, &list->capacity, list->count + span->count + left,
		sizeof *list->items);
	const uint32_t *const nodes =
		span->count == 1 ? &span->first : &builder->nodes[span->first];
	for (uint32_t n = 0; n < span->count; n++)
		list->items[list->count++] = nodes[n];
}

/*
 * Appends the nodes of locations that have one each, from the root on, and has what they are added
 * to fetched. There must be room. Returns how many locations are left.
 */
static inline size_t append_single_nodes(
	struct view_builder *builder, const uint32_t *locations, size_t depth)
{
	const struct node_totals *const totals =
		builder->request->totals_only ? &builder->totals : NULL;
	const struct node_span *const spans = builder->spans;
	struct node_list *const list = &builder->line->list;
	uint32_t *const items = list->items;
	size_t count = list->count;

	for (; depth > 0; depth--) {
		const struct node_span span = spans[locations[depth - 1]];
		if (__builtin_expect(span.count != 1, false))
			break;
		items[count++] = span.first;
		if (totals != NULL)
			node_totals_prefetch(totals, span.first);
	}
	list->count = count;
	return depth;
}

static void begin_list(struct node_list *list, size_t depth)
{
	list->count = 0;
	list->items = xgrow(list->items, &list->capacity, depth, sizeof *list->items);
}

/* Puts the nodes of these locations, leaf first, into the line, root first. */
static void gather_nodes(struct view_builder *builder, const uint32_t *locations, size_t depth)
{
	begin_list(&builder->line->list, depth);
	while ((depth = append_single_nodes(builder, locations, depth)) > 0) {
		depth--;
		append_nodes(builder, locations[depth], depth);
	}
}

/* Puts what is picked of a stack into the line; false when the stack is left out. */
static bool gather_picked(struct view_builder *builder, const struct profile_stack *stack)
{
	const uint32_t *locations = NULL;
	size_t depth = 0;

	if (!stack_filter_pick(&builder->stack_filter, stack, &locations, &depth))
		return false;
	gather_nodes(builder, locations, depth);
	return true;
}

/*
 * The same in one pass for the usual stack: nothing but the allocator's frames is left out, and all
 * locations have nodes, as only those get that were picked before. False when it is not one.
 */
static bool gather_usual(struct view_builder *builder, const struct profile_stack *stack)
{
	const uint32_t *const locations = &builder->profile->stack_locations[stack->first];
	size_t depth = stack->depth;

	begin_list(&builder->line->list, depth);
	while ((depth = append_single_nodes(builder, locations, depth)) > 0) {
		const uint32_t location = locations[--depth];
		if (builder->stack_filter.facts[location] == LOCATION_IS_ALLOCATOR ||
			builder->stack_filter.facts[location] == LOCATION_IS_WRAPPER)
			return true;
		if (builder->spans[location].first == NOT_MADE)
			return false;
		append_nodes(builder, location, depth);
	}
	return true;
}

/* Puts the path of a stack into the line; false when the stack is left out. */
static bool gather_path(struct view_builder *builder, const struct profile_stack *stack)
{
	const bool is_usual = builder->has_usual_stacks && gather_usual(builder, stack);

	if (!is_usual && !gather_picked(builder, stack))
		return false;
	return builder->line->list.count != 0 || !filter_drops_empty(builder->request->filter);
}

static void add_to_path(struct view_builder *builder, const struct line *line)
{
	struct view *const view = builder->view;
	uint32_t *const at = &builder->paths[line->stack];

	if (*at == NOT_MADE)
		*at = (uint32_t)(view_add_prepared_path(
					 view, line->hash, line->list.items, line->list.count) -
				 view->paths);
	struct view_path *const path = &view->paths[*at];
	struct estimate *const sums = builder->is_base ? view_path_base(view, path) : path->now;
	for (int i = 0; i < PROFILE_COUNTERS; i++)
		estimate_add(&sums[i], line->estimates[i]);
	if (builder->request->observe != NULL)
		builder->request->observe(builder->request->observer, builder->input, line->stack,
			*at, line->estimates);
}

static void add_prepared(struct view_builder *builder)
{
	struct line *const line = builder->prepared;

	if (!line->is_prepared)
		return;
	line->is_prepared = false;
	if (builder->request->totals_only)
		node_totals_add(&builder->totals, line->list.items, line->list.count,
			&line->estimates[builder->view->counter]);
	else
		add_to_path(builder, line);
}

/* Finds the path of the line's stack, unless it has one; false when it is left out. */
static bool prepare_path(struct view_builder *builder, struct line *line)
{
	const struct node_list *const list = &line->list;
	uint32_t *const path = &builder->paths[line->stack];

	if (*path != NOT_MADE)
		return *path != LEFT_OUT;
	if (!gather_path(builder, &builder->profile->stacks[line->stack])) {
		*path = LEFT_OUT;
		return false;
	}
	line->hash = view_prepare_path(builder->view, list->items, list->count);
	return true;
}

static bool prepare_totals(struct view_builder *builder, struct line *line)
{
	const struct node_list *const list = &line->list;

	if (!gather_path(builder, &builder->profile->stacks[line->stack]))
		return false;
	if (list->count != 0)
		node_totals_prefetch_leaf(&builder->totals, list->items[list->count - 1]);
	return true;
}

/* The estimates of a sample, into the line; false when the filter leaves it out. */
static bool prepare_estimates(
	struct view_builder *builder, struct line *line, const struct profile_sample *sample)
{
	struct view *const view = builder->view;
	struct filter *const filter = builder->request->filter;
	double *const totals = builder->is_base ? view->base_total : view->total;
	struct estimate *const estimates = line->estimates;

	if (!filter_takes_thread(filter, builder->profile, sample))
		return false;
	unsample(builder->profile, sample->counters, estimates);
	if (builder->request->mean_delay && estimates[PROFILE_INUSE_OBJECTS].value > 0)
		estimates[PROFILE_INUSE_SPACE].value /= estimates[PROFILE_INUSE_OBJECTS].value;
	for (int i = 0; i < PROFILE_COUNTERS; i++)
		totals[i] += estimates[i].value;
	return filter_takes(filter, builder->profile, sample);
}

static void add_sample(struct view_builder *builder, const struct profile_sample *sample)
{
	struct line *const line = builder->line;

	line->stack = sample->stack;
	if (!prepare_estimates(builder, line, sample))
		return;
	line->is_prepared = builder->request->totals_only ? prepare_totals(builder, line)
							  : prepare_path(builder, line);
	if (!line->is_prepared)
		return;
	add_prepared(builder);
	builder->line = builder->prepared;
	builder->prepared = line;
}

/* Begins to fetch the locations of a stack: all of them, for lines are fetched one by one. */
static void fetch_stack(const struct profile *profile, uint32_t stack)
{
	enum { LINE_BYTES = 64 };
	const struct profile_stack *const at = &profile->stacks[stack];
	const char *const begin = (const char *)&profile->stack_locations[at->first];

	for (size_t offset = 0; offset < at->depth * sizeof(uint32_t); offset += LINE_BYTES)
		__builtin_prefetch(begin + offset);
}

static bool add_profile(struct view_builder *builder, const struct view_input *input,
	const struct module_place *places, struct error *err)
{
	const struct profile_sample *samples = NULL;
	size_t count = 0;

	enter_profile(builder, input, places);
	if (!stack_filter_samples(&builder->stack_filter, &samples, &count, err))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (i + SAMPLES_AHEAD < count)
			fetch_stack(input->profile, samples[i + SAMPLES_AHEAD].stack);
		add_sample(builder, &samples[i]);
	}
	add_prepared(builder);
	return true;
}

static bool add_profiles(struct view_builder *builder, const struct view_input *inputs,
	size_t count, struct error *err)
{
	CLEANUP(free_cleanup) struct module_place **places = xcalloc(count, sizeof(void *));
	bool done = true;

	/* All of them first: whether modules differ decides what is the same node. */
	CLEANUP(free_cleanup)
	const struct profile **profiles = xcalloc(count, sizeof(void *));
	for (size_t i = 0; i < count; i++) {
		places[i] = module_table_add(&builder->modules, inputs[i].profile);
		profiles[i] = inputs[i].profile;
	}
	stack_filter_prepare(&builder->stack_filter, profiles, count);
	for (size_t i = 0; done && i < count; i++) {
		builder->input = i;
		done = add_profile(builder, &inputs[i], places[i], err);
	}
	for (size_t i = 0; i < count; i++)
		free(places[i]);
	return done;
}

/* Of what shrank nothing changed: the base's value is on both sides, and in the totals. */
static void drop_negative(struct view *view)
{
	view->drops_negative = true;
	for (size_t i = 0; i < view->path_count; i++) {
		struct view_path *const path = &view->paths[i];
		for (int c = 0; c < PROFILE_COUNTERS; c++) {
			if (path->now[c].value >= path->base[c].value)
				continue;
			struct estimate *const base = view_path_base(view, path);
			view->total[c] += base[c].value - path->now[c].value;
			path->now[c] = base[c] = (struct estimate){ .value = base[c].value };
		}
	}
}

bool view_check_inputs(const struct view_input *inputs, size_t count, struct error *err)
{
	const struct profile *const first = inputs[0].profile;

	for (size_t i = 1; i < count; i++) {
		if (inputs[i].profile->kind != first->kind)
			return error_set(err, ERROR_USAGE,
				"%.120s and %.120s are of different kinds and cannot be combined",
				first->name, inputs[i].profile->name);
	}
	return true;
}

/* Where only some inputs have modules, functions are matched by their names alone. */
static bool has_modules_in_part(const struct view_input *inputs, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if ((inputs[i].profile->mapping_count == 0) !=
			(inputs[0].profile->mapping_count == 0))
			return true;
	}
	return false;
}

static bool has_addresses(const struct profile *profile)
{
	for (size_t i = 0; i < profile->location_count; i++)
		if (!profile->locations[i].is_named)
			return true;
	return profile->location_count == 0;
}

static bool all_have_addresses(const struct view_input *inputs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!has_addresses(inputs[i].profile))
			return false;
	}
	return true;
}

static bool has_addresses_in_part(const struct view_input *inputs, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (has_addresses(inputs[i].profile) != has_addresses(inputs[0].profile))
			return true;
	}
	return false;
}

enum line_numbers { LINES_UNKNOWN, LINES_MISSING, LINES_KNOWN };

static enum line_numbers lines_of(const struct profile *profile, bool of_starts)
{
	for (size_t i = 0; i < profile->frame_count; i++) {
		const struct profile_frame *const frame = &profile->frames[i];
		if ((of_starts ? frame->start_line : frame->line) != 0)
			return LINES_KNOWN;
	}
	return profile->frame_count == 0 ? LINES_UNKNOWN : LINES_MISSING;
}

/*
 * Whether an input has names as they were printed, and the others may have more: without arguments,
 * where no overload needed them, and "[server]+0x1234" where there was none.
 */
static bool have_printed_names(const struct view_input *inputs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct profile *const profile = inputs[i].profile;
		if (!has_addresses(profile) && lines_of(profile, false) != LINES_KNOWN)
			return true;
	}
	return has_addresses_in_part(inputs, count);
}

bool view_inputs_share_names_alone(const struct view_input *inputs, size_t count)
{
	return has_modules_in_part(inputs, count) || have_printed_names(inputs, count);
}

/*
 * Symbolized profiles have no lines where functions start, collapsed stacks have no lines at all:
 * beside one with them, each function would be two.
 */
static bool has_lines_in_part(const struct view_input *inputs, size_t count, bool of_starts)
{
	bool is_seen[LINES_KNOWN + 1] = { false };

	for (size_t i = 0; i < count; i++)
		is_seen[lines_of(inputs[i].profile, of_starts)] = true;
	return is_seen[LINES_MISSING] && is_seen[LINES_KNOWN];
}

static bool is_difference(const struct view_input *inputs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (inputs[i].is_base)
			return true;
	}
	return false;
}

/*
 * What a side cannot say cannot be subtracted: functions are what all of them have. Where all have
 * addresses, a side without lines may just have no stack in a program with debug information.
 */
static enum view_granularity common_granularity(
	const struct view_input *inputs, size_t count, enum view_granularity wanted)
{
	if (!is_difference(inputs, count) || all_have_addresses(inputs, count))
		return wanted;
	return has_lines_in_part(inputs, count, false) || has_addresses_in_part(inputs, count)
		       ? VIEW_FUNCTIONS
		       : wanted;
}

static const char *describe_sampling(struct view *view, const struct profile *profile)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	profile_describe_sampling(profile, &text);
	return string_pool_add(&view->strings, buffer_string(&text));
}

static void describe(struct view *view, const struct view_input *inputs, size_t count,
	const struct view_request *request)
{
	view->title = string_pool_add(&view->strings, request->title == NULL ? "" : request->title);
	view->subtitle =
		string_pool_add(&view->strings, request->subtitle == NULL ? "" : request->subtitle);
	view->sampling = describe_sampling(view, inputs[0].profile);
	view->attached_ms = inputs[0].profile->attached_ms;
	view->is_difference = is_difference(inputs, count);
	for (size_t i = 0; i < count; i++) {
		view->lacks_errors |= profile_lacks_errors(inputs[i].profile);
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
		.regardless_of_start_line =
			input_count > 1 && has_lines_in_part(inputs, input_count, true),
		.by_printed_name = is_difference(inputs, input_count) &&
				   have_printed_names(inputs, input_count),
	};

	if (!view_check_inputs(inputs, input_count, err))
		return false;
	struct view_request common = *request;
	common.granularity = common_granularity(inputs, input_count, request->granularity);
	CLEANUP(builder_deinit) struct view_builder builder = { 0 };
	builder_init(&builder, &common, inputs[0].profile->kind, rules);
	if (!add_profiles(&builder, inputs, input_count, err))
		return false;
	if (!filter_check(request->filter, err))
		return false;
	node_builder_finish(builder.node_builder);
	if (request->totals_only) {
		builder.view->totals = node_totals_take(&builder.totals);
		builder.view->whole = builder.totals.whole;
	}
	describe(builder.view, inputs, input_count, request);
	if (request->drop_negative)
		drop_negative(builder.view);
	*ret = TAKE(builder.view);
	return true;
}
