/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/filtered_profile.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/filter.h"
#include "analysis/function_name.h"
#include "analysis/modules.h"
#include "analysis/unsample.h"
#include "base/xalloc.h"

/* Of the absolute values: a smaller sum is a rounding error. */
#define ROUNDING_SHARE 1e-12

static int order_of(uint64_t left, uint64_t right)
{
	return (left > right) - (left < right);
}

static int by_key(const void *a, const void *b)
{
	const struct profile_sample *const left = a;
	const struct profile_sample *const right = b;
	const int by_stack = order_of(left->stack, right->stack);
	const int by_thread = order_of(left->thread, right->thread);

	if (by_stack != 0 || by_thread != 0)
		return by_stack != 0 ? by_stack : by_thread;
	return order_of(left->object_bytes, right->object_bytes);
}

static bool is_equal(const struct profile_sample *left, const struct profile_sample *right,
	bool with_object_bytes)
{
	return left->stack == right->stack && left->thread == right->thread &&
	       (!with_object_bytes || left->object_bytes == right->object_bytes);
}

/* Adds `count` samples to the first of them; false when the sums are zero. */
static bool add_to_first(struct profile_sample *samples, size_t count, bool drop_negative)
{
	bool is_left = false;

	for (int c = 0; c < PROFILE_COUNTERS; c++) {
		double sum = 0;
		double all = 0;
		for (size_t i = 0; i < count; i++) {
			sum += samples[i].counters[c];
			all += fabs(samples[i].counters[c]);
		}
		if (fabs(sum) <= all * ROUNDING_SHARE || (drop_negative && sum < 0))
			sum = 0;
		samples[0].counters[c] = sum;
		is_left |= sum != 0;
	}
	return is_left;
}

/*
 * Adds up equal samples of both sides of a difference. Only then may they be rounded: each on its
 * own would leave a byte of difference where nothing changed.
 *
 * Samples of equal stack, thread and size of objects become one, and those that end up zero are
 * removed. With `drop_negative` samples of equal stack and thread become one, and values below
 * zero are zero. Samples are ordered by stack afterwards.
 */
static void add_up_samples(struct profile *profile, bool drop_negative)
{
	struct profile_sample *const samples = profile->samples;
	const size_t count = profile->sample_count;
	size_t kept = 0;

	if (count == 0)
		return;
	qsort(samples, count, sizeof *samples, by_key);
	for (size_t first = 0, end = 0; first < count; first = end) {
		for (end = first + 1; end < count; end++) {
			if (!is_equal(&samples[first], &samples[end], !drop_negative))
				break;
		}
		if (add_to_first(&samples[first], end - first, drop_negative))
			samples[kept++] = samples[first];
	}
	profile->sample_count = kept;
}

#define NOT_MADE UINT32_MAX
#define LEFT_OUT (UINT32_MAX - 1)

struct selector {
	const struct filtered_profile_request *request;
	struct profile *out;
	struct stack_filter stack_filter;
	struct address_space space;

	/* Of the current profile. */
	const struct profile *profile;
	const struct module_place *places;
	double sign;
	uint32_t *locations; /* for each location the new one, NOT_MADE or LEFT_OUT */
	uint32_t *stacks;    /* the same for each stack */
	uint32_t *threads;
	struct text_map texts;

	bool by_printed_name; /* locations become names as collapsed stacks have them */
	uint32_t *scratch;
	size_t scratch_capacity;
};

static void selector_init(struct selector *selector, const struct filtered_profile_request *request)
{
	*selector = (struct selector){ .request = request };
	selector->out = profile_new("selection");
	stack_filter_init(&selector->stack_filter, request->filter, request->pruning);
	address_space_init(&selector->space, selector->out);
}

static void selector_deinit(struct selector *selector)
{
	profile_free(selector->out);
	stack_filter_deinit(&selector->stack_filter);
	address_space_deinit(&selector->space);
	free(selector->locations);
	free(selector->stacks);
	free(selector->threads);
	text_map_deinit(&selector->texts);
	free(selector->scratch);
}

static uint32_t *fill(uint32_t *items, size_t count)
{
	items = xreallocarray(items, count, sizeof *items);
	for (size_t i = 0; i < count; i++)
		items[i] = NOT_MADE;
	return items;
}

static void enter_profile(struct selector *selector, const struct view_input *input,
	const struct module_place *places)
{
	const struct profile *const profile = input->profile;

	text_map_deinit(&selector->texts);
	selector->profile = profile;
	selector->places = places;
	selector->sign = input->is_base ? -1 : 1;
	stack_filter_enter(&selector->stack_filter, profile);
	selector->locations = fill(selector->locations, profile->location_count);
	selector->stacks = fill(selector->stacks, profile->stack_count);
	selector->threads = fill(selector->threads, profile->thread_count);
	selector->out->has_allocated |= profile->has_allocated;
	selector->out->has_mappings |= profile->has_mappings;
}

/* Copies the frames that show and hide leave; how many. */
static uint32_t copy_frames(struct selector *selector, const struct profile_location *from)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < from->frame_count; i++) {
		const struct profile_frame *const frame =
			&selector->profile->frames[from->first_frame + i];
		if (!filter_shows(selector->request->filter, frame))
			continue;
		profile_copy_frame(selector->out, &selector->texts, frame);
		count++;
	}
	return count;
}

static uint32_t make_addressed(struct selector *selector, const struct profile_location *from)
{
	struct profile *const out = selector->out;
	const uint64_t moved = from->mapping == PROFILE_NONE
				       ? from->address
				       : address_space_move(&selector->space, selector->profile,
						 selector->places, from->mapping, from->address);
	/* pprof has the address before the one of return: both are one place. */
	const uint64_t address = moved + (moved != 0 && from->is_exact);
	const size_t known = out->location_count;
	const uint32_t made = profile_add_address(out, address);

	if (made < known)
		return made;
	const uint32_t first_frame = (uint32_t)out->frame_count;
	const uint32_t frame_count = copy_frames(selector, from);
	out->locations[made].first_frame = first_frame;
	out->locations[made].frame_count = frame_count;
	return made;
}

static const char *printed_place(struct selector *selector, const struct profile_location *from)
{
	const uint64_t address = from->address - (from->address != 0 && !from->is_exact);
	const bool has_start = from->function_start != 0 && from->function_start <= address;
	const uint64_t start = has_start ? from->function_start : address;
	const char *module = "";
	uint64_t base = 0;
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (from->mapping != PROFILE_NONE) {
		const struct module_place *const place = &selector->places[from->mapping];
		module = selector->space.modules.modules[place->module].name;
		base = place->base;
	}
	module_append_place(&text, module, start, start - base);
	return profile_intern(selector->out, buffer_string(&text));
}

static const char *printed_function(struct selector *selector, const char *function)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	function_name_append_short(&text, function);
	return profile_intern(selector->out, buffer_string(&text));
}

/* Without files and lines, which one side has not. */
static uint32_t make_printed(struct selector *selector, const struct profile_location *from)
{
	struct profile *const out = selector->out;
	CLEANUP(free_cleanup)
	struct profile_frame *frames = xcalloc(from->frame_count + 1, sizeof *frames);
	size_t count = 0;

	for (uint32_t i = 0; i < from->frame_count; i++) {
		const struct profile_frame *const frame =
			&selector->profile->frames[from->first_frame + i];
		if (filter_shows(selector->request->filter, frame))
			frames[count++].function =
				frame->function[0] != '\0'
					? printed_function(selector, frame->function)
					: printed_place(selector, from);
	}
	if (from->frame_count == 0)
		frames[count++].function = printed_place(selector, from);
	return profile_add_named(out, frames, count);
}

static bool is_hidden(struct selector *selector, const struct profile_location *from)
{
	static const struct profile_frame unknown = { .function = "", .file = "" };

	for (uint32_t i = 0; i < from->frame_count; i++) {
		if (filter_shows(selector->request->filter,
			    &selector->profile->frames[from->first_frame + i]))
			return false;
	}
	return from->frame_count != 0 || !filter_shows(selector->request->filter, &unknown);
}

static uint32_t location_of(struct selector *selector, uint32_t at)
{
	const struct profile_location shown = stack_filter_location(&selector->stack_filter, at);
	const struct profile_location *const from = &shown;
	uint32_t *const made = &selector->locations[at];

	if (*made != NOT_MADE)
		return *made;
	if (is_hidden(selector, from))
		*made = LEFT_OUT;
	else if (selector->by_printed_name)
		*made = make_printed(selector, from);
	else if (from->is_named && from->frame_count != 0)
		*made = profile_copy_named(selector->out, &selector->texts,
			&selector->profile->frames[from->first_frame], from->frame_count);
	else
		*made = make_addressed(selector, from);
	return *made;
}

static uint32_t make_stack(struct selector *selector, const struct profile_stack *stack)
{
	const uint32_t *locations = NULL;
	size_t depth = 0;
	size_t count = 0;

	if (!stack_filter_pick(&selector->stack_filter, stack, &locations, &depth))
		return LEFT_OUT;
	selector->scratch = xgrow(
		selector->scratch, &selector->scratch_capacity, depth, sizeof *selector->scratch);
	for (size_t i = 0; i < depth; i++) {
		const uint32_t location = location_of(selector, locations[i]);
		if (location != LEFT_OUT)
			selector->scratch[count++] = location;
	}
	if (count == 0 && filter_drops_empty(selector->request->filter))
		return LEFT_OUT;
	return profile_add_stack(selector->out, selector->scratch, count);
}

static uint32_t thread_of(struct selector *selector, uint32_t thread)
{
	if (thread == PROFILE_NONE)
		return PROFILE_NONE;
	if (selector->threads[thread] == NOT_MADE)
		selector->threads[thread] =
			profile_add_thread(selector->out, selector->profile->threads[thread].id,
				selector->profile->threads[thread].name);
	return selector->threads[thread];
}

static double mean_size(const struct profile_sample *sample)
{
	const double *const counters = sample->counters;

	if (counters[PROFILE_INUSE_OBJECTS] > 0)
		return counters[PROFILE_INUSE_SPACE] / counters[PROFILE_INUSE_OBJECTS];
	if (counters[PROFILE_ALLOC_OBJECTS] > 0)
		return counters[PROFILE_ALLOC_SPACE] / counters[PROFILE_ALLOC_OBJECTS];
	return 0;
}

/* `factors` is for each counter what its estimate is multiplied by; NULL for 1. */
static void add_sample(
	struct selector *selector, const struct profile_sample *from, const double *factors)
{
	const struct profile *const profile = selector->profile;
	struct estimate estimates[PROFILE_COUNTERS];
	struct profile_sample sample = { .object_bytes = from->object_bytes };

	if (!filter_takes(selector->request->filter, profile, from))
		return;
	uint32_t *const stack = &selector->stacks[from->stack];
	if (*stack == NOT_MADE)
		*stack = make_stack(selector, &profile->stacks[from->stack]);
	if (*stack == LEFT_OUT)
		return;
	unsample(profile, from->counters, estimates);
	for (int c = 0; c < PROFILE_COUNTERS; c++)
		sample.counters[c] =
			selector->sign * estimates[c].value * (factors == NULL ? 1 : factors[c]);
	sample.stack = *stack;
	sample.thread =
		selector->request->by_thread ? thread_of(selector, from->thread) : PROFILE_NONE;
	if (selector->request->strip_labels)
		sample.object_bytes = 0;
	else if (sample.object_bytes == 0)
		sample.object_bytes = (uint64_t)llround(mean_size(from));
	profile_add_sample(selector->out, &sample);
}

/* What all samples of a stack add up to. */
static struct estimate *sum_stacks(
	const struct profile *profile, const struct profile_sample *samples, size_t count)
{
	struct estimate *const sums =
		xcalloc(profile->stack_count * PROFILE_COUNTERS, sizeof *sums);

	for (size_t i = 0; i < count; i++) {
		struct estimate estimates[PROFILE_COUNTERS];
		unsample(profile, samples[i].counters, estimates);
		for (int c = 0; c < PROFILE_COUNTERS; c++)
			estimate_add(&sums[samples[i].stack * PROFILE_COUNTERS + c], estimates[c]);
	}
	return sums;
}

/*
 * Samples of single threads, which were unsampled on their own and so do not quite add up to what
 * all threads have together: they share that out. Stacks that have none keep their total.
 */
static void add_threads(struct selector *selector)
{
	const struct profile *const profile = selector->profile;
	CLEANUP(free_cleanup)
	struct estimate *all = sum_stacks(profile, profile->samples, profile->sample_count);
	CLEANUP(free_cleanup)
	struct estimate *parts =
		sum_stacks(profile, profile->thread_samples, profile->thread_sample_count);

	for (size_t i = 0; i < profile->thread_sample_count; i++) {
		const size_t at = (size_t)profile->thread_samples[i].stack * PROFILE_COUNTERS;
		double factors[PROFILE_COUNTERS];
		for (int c = 0; c < PROFILE_COUNTERS; c++)
			factors[c] = parts[at + c].value == 0
					     ? 0
					     : all[at + c].value / parts[at + c].value;
		add_sample(selector, &profile->thread_samples[i], factors);
	}
	for (size_t i = 0; i < profile->sample_count; i++) {
		const size_t at = (size_t)profile->samples[i].stack * PROFILE_COUNTERS;
		if (parts[at + PROFILE_INUSE_OBJECTS].value == 0 &&
			parts[at + PROFILE_ALLOC_OBJECTS].value == 0)
			add_sample(selector, &profile->samples[i], NULL);
	}
}

static bool add_profile(struct selector *selector, const struct view_input *input,
	const struct module_place *places, struct error *err)
{
	const struct profile_sample *samples = NULL;
	size_t count = 0;

	enter_profile(selector, input, places);
	if (!stack_filter_samples(&selector->stack_filter, &samples, &count, err))
		return false;
	if (selector->request->by_thread && samples == input->profile->samples &&
		input->profile->thread_sample_count != 0) {
		add_threads(selector);
		return true;
	}
	for (size_t i = 0; i < count; i++)
		add_sample(selector, &samples[i], NULL);
	return true;
}

/* Complete ones are as if each byte were sampled. */
static uint64_t interval_of_profile(const struct profile *profile)
{
	return profile->is_complete ? 1 : profile->interval_bytes;
}

/*
 * 0 where no single one gives the errors: a profile does not say it, they have several, or it is a
 * difference, whose figures are smaller than what they are the difference of.
 */
static uint64_t interval_of(const struct view_input *inputs, size_t count)
{
	const uint64_t interval = interval_of_profile(inputs[0].profile);

	for (size_t i = 0; i < count; i++) {
		if (inputs[i].is_base || interval_of_profile(inputs[i].profile) != interval)
			return 0;
	}
	return interval;
}

static void describe(struct profile *out, const struct view_input *inputs, size_t count)
{
	const struct profile *const first = inputs[0].profile;

	out->kind = first->kind;
	out->weighting = PROFILE_WEIGHTED;
	out->interval_bytes = interval_of(inputs, count);
	out->time_ms = first->time_ms;
	out->duration_ms = first->duration_ms;
	out->program = profile_intern(out, profile_main_path(first));
	out->sampler = profile_intern(out, first->sampler);
	out->sampling = profile_intern(out, first->sampling);
	out->is_sampled_from_start = first->is_sampled_from_start;
	out->has_mapped = first->has_mapped;
	out->has_entries = first->has_entries;
	out->sampled_since_ms = first->sampled_since_ms;
	out->attached_ms = first->attached_ms;
}

/* Mappings were added as they were needed; locations find theirs once they are all there. */
static void finish(struct profile *out)
{
	for (size_t i = 0; i < out->location_count; i++)
		out->locations[i].mapping = PROFILE_NONE;
	profile_assign_mappings(out);
}

bool filtered_profile_make(const struct view_input *inputs, size_t input_count,
	const struct filtered_profile_request *request, struct profile **ret, struct error *err)
{
	CLEANUP(selector_deinit) struct selector selector = { 0 };
	CLEANUP(free_cleanup) struct module_place **places = xcalloc(input_count, sizeof(void *));
	bool done = view_check_inputs(inputs, input_count, err);
	bool is_difference = false;

	selector_init(&selector, request);
	describe(selector.out, inputs, input_count);
	CLEANUP(free_cleanup)
	const struct profile **profiles = xcalloc(input_count, sizeof(void *));
	for (size_t i = 0; i < input_count; i++) {
		is_difference |= inputs[i].is_base;
		places[i] = module_table_add(&selector.space.modules, inputs[i].profile);
		profiles[i] = inputs[i].profile;
	}
	selector.by_printed_name =
		is_difference && view_inputs_share_names_alone(inputs, input_count);
	stack_filter_prepare(&selector.stack_filter, profiles, input_count);
	for (size_t i = 0; done && i < input_count; i++)
		done = add_profile(&selector, &inputs[i], places[i], err);
	for (size_t i = 0; i < input_count; i++)
		free(places[i]);
	if (!done || !filter_check(request->filter, err))
		return false;
	finish(selector.out);
	selector.out->default_counter = selector.out->has_allocated
						? request->counter
						: request->counter % PROFILE_ALLOC_OBJECTS;
	if (is_difference || request->drop_negative || request->strip_labels)
		add_up_samples(selector.out, request->drop_negative);
	*ret = TAKE(selector.out);
	return true;
}
