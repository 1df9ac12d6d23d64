/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/stack_picker.h"

#include <stdlib.h>

#include "analysis/allocator_frames.h"
#include "analysis/function_name.h"
#include "base/xalloc.h"

void stack_picker_init(
	struct stack_picker *picker, struct filter *filter, bool keep_allocator_frames)
{
	*picker = (struct stack_picker){
		.filter = filter,
		.keep_allocator_frames = keep_allocator_frames,
	};
	buffer_init(&picker->text, &memory_or_exit);
}

void stack_picker_deinit(struct stack_picker *picker)
{
	free(picker->facts);
	free(picker->locations);
	buffer_deinit(&picker->text);
}

static bool is_allocator(struct stack_picker *picker, const struct profile_location *location)
{
	const struct profile *const profile = picker->profile;

	if (picker->keep_allocator_frames)
		return false;
	if (location->mapping != PROFILE_NONE && allocator_frame_has_module(profile->kind,
							 profile->mappings[location->mapping].path))
		return true;
	if (location->frame_count == 0)
		return false;
	const struct profile_frame *const outermost =
		&profile->frames[location->first_frame + location->frame_count - 1];
	buffer_clear(&picker->text);
	function_name_append_bare(&picker->text, outermost->function);
	return allocator_frame_has_name(profile->kind, buffer_string(&picker->text));
}

void stack_picker_enter(struct stack_picker *picker, const struct profile *profile)
{
	picker->profile = profile;
	picker->facts =
		xreallocarray(picker->facts, profile->location_count, sizeof *picker->facts);
	for (size_t i = 0; i < profile->location_count; i++)
		picker->facts[i] = (struct location_fact){
			is_allocator(picker, &profile->locations[i]),
			filter_judge(picker->filter, profile, &profile->locations[i]),
		};
	const uint32_t trampoline =
		picker->keep_allocator_frames ? PROFILE_NONE : allocator_frame_trampoline(profile);
	if (trampoline != PROFILE_NONE)
		picker->facts[trampoline].is_allocator = true;
}

/* How many locations behind the leaf are those of the signal's handler. */
static uint32_t count_handler(
	const struct stack_picker *picker, const uint32_t *locations, uint32_t depth)
{
	uint32_t count = 0;

	while (count + 1 < depth && picker->facts[locations[count + 1]].is_allocator)
		count++;
	return count;
}

/* How many locations from the leaf on are the allocator's business. */
static uint32_t find_cut(
	const struct stack_picker *picker, const uint32_t *locations, uint32_t depth)
{
	for (uint32_t i = depth; i > 0; i--) {
		if (picker->facts[locations[i - 1]].is_allocator)
			return i;
	}
	return 0;
}

/* What is picked of a stack so far. */
struct pick {
	size_t count;
	bool has_focus;
	bool is_ignored;
};

static void pick_location(struct stack_picker *picker, uint32_t location, struct pick *pick)
{
	const struct filter_verdict verdict = picker->facts[location].verdict;

	if (verdict.is_dropped)
		return;
	pick->is_ignored |= verdict.is_ignored;
	pick->has_focus |= verdict.has_focus;
	picker->locations[pick->count++] = location;
}

bool stack_picker_pick(struct stack_picker *picker, const struct profile_stack *stack,
	const uint32_t **ret, size_t *depth)
{
	const uint32_t *const locations = picker->profile->stack_locations + stack->first;
	struct pick pick = { .has_focus = !filter_has_focus(picker->filter) };
	uint32_t cut = 0;

	picker->locations = xgrow(picker->locations, &picker->location_capacity, stack->depth,
		sizeof *picker->locations);
	if (picker->profile->kind != PROFILE_CPU) {
		cut = find_cut(picker, locations, stack->depth);
	} else if (stack->depth != 0) {
		pick_location(picker, locations[0], &pick);
		cut = 1 + count_handler(picker, locations, stack->depth);
	}
	for (uint32_t i = cut; i < stack->depth && !pick.is_ignored; i++)
		pick_location(picker, locations[i], &pick);
	*ret = picker->locations;
	*depth = pick.count;
	return !pick.is_ignored && pick.has_focus &&
	       (pick.count != 0 || !filter_drops_empty(picker->filter));
}

bool stack_picker_samples(const struct stack_picker *picker, const struct profile_sample **samples,
	size_t *count, struct error *err)
{
	const struct profile *const profile = picker->profile;

	if (!filter_needs_threads(picker->filter)) {
		*samples = profile->samples;
		*count = profile->sample_count;
		return true;
	}
	*samples = profile->thread_samples;
	*count = profile->thread_sample_count;
	if (*count == 0 && profile->sample_count != 0)
		return error_set(
			err, ERROR_USAGE, "%s has no figures for single threads", profile->name);
	return true;
}
