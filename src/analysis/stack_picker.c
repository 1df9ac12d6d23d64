/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/stack_picker.h"

#include <stdlib.h>

#include "analysis/allocator_frames.h"
#include "analysis/function_name.h"
#include "base/xalloc.h"

void stack_picker_init(
	struct stack_picker *picker, struct filter *filter, enum stack_pruning pruning)
{
	*picker = (struct stack_picker){
		.filter = filter,
		.pruning = pruning,
	};
	buffer_init(&picker->text, &memory_or_exit);
}

void stack_picker_deinit(struct stack_picker *picker)
{
	allocator_wrappers_free(picker->wrappers);
	free(picker->facts);
	free(picker->locations);
	buffer_deinit(&picker->text);
}

static bool is_allocator(
	void *context, const struct profile *profile, const struct profile_location *location)
{
	struct stack_picker *const picker = context;

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

void stack_picker_prepare(
	struct stack_picker *picker, const struct profile *const *profiles, size_t count)
{
	const enum profile_kind kind = count == 0 ? PROFILE_CPU : profiles[0]->kind;

	if (picker->pruning == PRUNE_WRAPPERS && (kind == PROFILE_HEAP || kind == PROFILE_GROWTH))
		picker->wrappers = allocator_wrappers_find(profiles, count, is_allocator, picker);
}

static uint8_t find_facts(struct stack_picker *picker, const struct profile_location *location)
{
	const struct filter_verdict verdict =
		filter_judge(picker->filter, picker->profile, location);

	const bool is_pruned =
		picker->pruning != PRUNE_NOTHING && is_allocator(picker, picker->profile, location);
	return (uint8_t)((is_pruned ? LOCATION_IS_ALLOCATOR : 0) |
			 (verdict.is_dropped
					 ? LOCATION_IS_DROPPED
					 : (verdict.is_ignored ? LOCATION_IS_IGNORED : 0) |
						   (verdict.has_focus ? LOCATION_HAS_FOCUS : 0)));
}

void stack_picker_enter(struct stack_picker *picker, const struct profile *profile)
{
	picker->profile = profile;
	picker->facts =
		xreallocarray(picker->facts, profile->location_count, sizeof *picker->facts);
	picker->wrapper_facts = picker->wrappers == NULL
					? NULL
					: allocator_wrappers_facts(picker->wrappers, profile);
	for (size_t i = 0; i < profile->location_count; i++) {
		picker->facts[i] = find_facts(picker, &profile->locations[i]);
		if (picker->wrapper_facts != NULL && picker->wrapper_facts[i].is_wrapper)
			picker->facts[i] |= LOCATION_IS_WRAPPER;
	}
	const uint32_t trampoline = picker->pruning == PRUNE_NOTHING
					    ? PROFILE_NONE
					    : allocator_frame_trampoline(profile);
	if (trampoline != PROFILE_NONE)
		picker->facts[trampoline] |= LOCATION_IS_ALLOCATOR;
}

/* What is picked of a stack so far, leaf first: a part of the stack itself if possible. */
struct pick {
	const uint32_t *locations;
	size_t depth;
	unsigned facts; /* of all of them */
};

/* From behind the allocator's outermost frame on; its own frames end there. */
static struct pick pick_callers(
	const struct stack_picker *picker, const uint32_t *locations, size_t depth)
{
	unsigned facts = 0;
	size_t cut = depth;

	for (; cut > 0; cut--) {
		const uint8_t fact = picker->facts[locations[cut - 1]];
		if ((fact & LOCATION_IS_ALLOCATOR) != 0)
			break;
		facts |= fact;
	}
	/* All that a wrapper calls are wrappers and allocators, so they are next to them. */
	while (cut < depth && (picker->facts[locations[cut]] & LOCATION_IS_WRAPPER) != 0)
		cut++;
	return (struct pick){ locations + cut, depth - cut, facts };
}

static void keep(struct stack_picker *picker, struct pick *pick, uint32_t location)
{
	picker->locations[pick->depth++] = location;
	pick->facts |= picker->facts[location];
}

/* All but the frames of the signal's handler, which are right behind the leaf. */
static struct pick pick_interrupted(
	struct stack_picker *picker, const uint32_t *locations, size_t depth)
{
	struct pick pick = { .locations = picker->locations };
	size_t at = 1;

	if (depth == 0)
		return pick;
	while (at < depth && (picker->facts[locations[at]] & LOCATION_IS_ALLOCATOR) != 0)
		at++;
	keep(picker, &pick, locations[0]);
	for (; at < depth; at++)
		keep(picker, &pick, locations[at]);
	return pick;
}

static struct pick pick_kept(struct stack_picker *picker, const struct pick *all)
{
	struct pick pick = { .locations = picker->locations };

	for (size_t i = 0; i < all->depth; i++) {
		if ((picker->facts[all->locations[i]] & LOCATION_IS_DROPPED) == 0)
			keep(picker, &pick, all->locations[i]);
	}
	return pick;
}

bool stack_picker_pick(struct stack_picker *picker, const struct profile_stack *stack,
	const uint32_t **ret, size_t *depth)
{
	const uint32_t *const locations = picker->profile->stack_locations + stack->first;

	picker->locations = xgrow(picker->locations, &picker->location_capacity, stack->depth,
		sizeof *picker->locations);
	struct pick pick = picker->profile->kind == PROFILE_CPU
				   ? pick_interrupted(picker, locations, stack->depth)
				   : pick_callers(picker, locations, stack->depth);
	if ((pick.facts & LOCATION_IS_DROPPED) != 0)
		pick = pick_kept(picker, &pick);
	*ret = pick.locations;
	*depth = pick.depth;
	if ((pick.facts & LOCATION_IS_IGNORED) != 0)
		return false;
	if (filter_has_focus(picker->filter) && (pick.facts & LOCATION_HAS_FOCUS) == 0)
		return false;
	return pick.depth != 0 || !filter_drops_empty(picker->filter);
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
