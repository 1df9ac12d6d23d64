/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/stack_filter.h"

#include <stdlib.h>

#include "analysis/allocator_frames.h"
#include "analysis/function_name.h"
#include "base/xalloc.h"

void stack_filter_init(
	struct stack_filter *stack_filter, struct filter *filter, enum stack_pruning pruning)
{
	*stack_filter = (struct stack_filter){
		.filter = filter,
		.pruning = pruning,
	};
	buffer_init(&stack_filter->text, &memory_or_exit);
}

void stack_filter_deinit(struct stack_filter *stack_filter)
{
	allocator_wrappers_free(stack_filter->wrappers);
	free(stack_filter->facts);
	free(stack_filter->locations);
	buffer_deinit(&stack_filter->text);
	text_numbers_deinit(&stack_filter->names);
	free(stack_filter->name_is_allocator);
}

static bool is_allocator_name(
	struct stack_filter *stack_filter, enum profile_kind kind, const char *name)
{
	const size_t count = stack_filter->names.count;
	const uint32_t number = text_numbers_add(&stack_filter->names, name);

	if (number == count) {
		stack_filter->name_is_allocator =
			xgrow(stack_filter->name_is_allocator, &stack_filter->name_capacity,
				count + 1, sizeof *stack_filter->name_is_allocator);
		buffer_clear(&stack_filter->text);
		function_name_append_bare(&stack_filter->text, name);
		stack_filter->name_is_allocator[number] =
			allocator_frame_has_name(kind, buffer_string(&stack_filter->text));
	}
	return stack_filter->name_is_allocator[number];
}

static bool is_allocator(
	void *context, const struct profile *profile, const struct profile_location *location)
{
	struct stack_filter *const stack_filter = context;

	if (location->mapping != PROFILE_NONE && allocator_frame_has_module(profile->kind,
							 profile->mappings[location->mapping].path))
		return true;
	if (location->frame_count == 0)
		return false;
	const struct profile_frame *const outermost =
		&profile->frames[location->first_frame + location->frame_count - 1];
	return outermost->function != NULL &&
	       is_allocator_name(stack_filter, profile->kind, outermost->function);
}

void stack_filter_prepare(
	struct stack_filter *stack_filter, const struct profile *const *profiles, size_t count)
{
	const enum profile_kind kind = count == 0 ? PROFILE_CPU : profiles[0]->kind;

	if (stack_filter->pruning == PRUNE_WRAPPERS &&
		(kind == PROFILE_HEAP || kind == PROFILE_GROWTH))
		stack_filter->wrappers =
			allocator_wrappers_find(profiles, count, is_allocator, stack_filter);
}

static uint8_t find_facts(
	struct stack_filter *stack_filter, const struct profile_location *location)
{
	const struct filter_verdict verdict =
		filter_judge(stack_filter->filter, stack_filter->profile, location);

	const bool is_pruned = stack_filter->pruning != PRUNE_NOTHING &&
			       is_allocator(stack_filter, stack_filter->profile, location);
	return (uint8_t)((is_pruned ? LOCATION_IS_ALLOCATOR : 0) |
			 (verdict.is_dropped
					 ? LOCATION_IS_DROPPED
					 : (verdict.is_ignored ? LOCATION_IS_IGNORED : 0) |
						   (verdict.has_focus ? LOCATION_HAS_FOCUS : 0)));
}

void stack_filter_enter(struct stack_filter *stack_filter, const struct profile *profile)
{
	stack_filter->profile = profile;
	stack_filter->facts = xreallocarray(
		stack_filter->facts, profile->location_count, sizeof *stack_filter->facts);
	stack_filter->wrapper_facts =
		stack_filter->wrappers == NULL
			? NULL
			: allocator_wrappers_facts(stack_filter->wrappers, profile);
	for (size_t i = 0; i < profile->location_count; i++) {
		stack_filter->facts[i] = find_facts(stack_filter, &profile->locations[i]);
		if (stack_filter->wrapper_facts != NULL &&
			stack_filter->wrapper_facts[i].is_wrapper)
			stack_filter->facts[i] |= LOCATION_IS_WRAPPER;
	}
	const uint32_t trampoline = stack_filter->pruning == PRUNE_NOTHING
					    ? PROFILE_NONE
					    : allocator_frame_trampoline(profile);
	if (trampoline != PROFILE_NONE)
		stack_filter->facts[trampoline] |= LOCATION_IS_ALLOCATOR;
}

/* What is picked of a stack so far, leaf first: a part of the stack itself if possible. */
struct pick {
	const uint32_t *locations;
	size_t depth;
	unsigned facts; /* of all of them */
};

/* Starts after the outermost frame of the allocator; its own frames end there. */
static struct pick pick_callers(
	const struct stack_filter *stack_filter, const uint32_t *locations, size_t depth)
{
	unsigned facts = 0;
	size_t cut = depth;

	for (; cut > 0; cut--) {
		const uint8_t fact = stack_filter->facts[locations[cut - 1]];
		if ((fact & LOCATION_IS_ALLOCATOR) != 0)
			break;
		facts |= fact;
	}
	/* All that a wrapper calls are wrappers and allocators, so they are next to them. */
	while (cut < depth && (stack_filter->facts[locations[cut]] & LOCATION_IS_WRAPPER) != 0)
		cut++;
	return (struct pick){ locations + cut, depth - cut, facts };
}

static void keep(struct stack_filter *stack_filter, struct pick *pick, uint32_t location)
{
	stack_filter->locations[pick->depth++] = location;
	pick->facts |= stack_filter->facts[location];
}

/* All but the frames of the signal's handler, which follow the leaf. */
static struct pick pick_interrupted(
	struct stack_filter *stack_filter, const uint32_t *locations, size_t depth)
{
	struct pick pick = { .locations = stack_filter->locations };
	size_t at = 1;

	if (depth == 0)
		return pick;
	while (at < depth && (stack_filter->facts[locations[at]] & LOCATION_IS_ALLOCATOR) != 0)
		at++;
	keep(stack_filter, &pick, locations[0]);
	for (; at < depth; at++)
		keep(stack_filter, &pick, locations[at]);
	return pick;
}

static struct pick pick_kept(struct stack_filter *stack_filter, const struct pick *all)
{
	struct pick pick = { .locations = stack_filter->locations };

	for (size_t i = 0; i < all->depth; i++) {
		if ((stack_filter->facts[all->locations[i]] & LOCATION_IS_DROPPED) == 0)
			keep(stack_filter, &pick, all->locations[i]);
	}
	return pick;
}

bool stack_filter_pick(struct stack_filter *stack_filter, const struct profile_stack *stack,
	const uint32_t **ret, size_t *depth)
{
	const uint32_t *const locations = stack_filter->profile->stack_locations + stack->first;

	stack_filter->locations = xgrow(stack_filter->locations, &stack_filter->location_capacity,
		stack->depth, sizeof *stack_filter->locations);
	struct pick pick = stack_filter->profile->kind == PROFILE_CPU
				   ? pick_interrupted(stack_filter, locations, stack->depth)
				   : pick_callers(stack_filter, locations, stack->depth);
	if ((pick.facts & LOCATION_IS_DROPPED) != 0)
		pick = pick_kept(stack_filter, &pick);
	*ret = pick.locations;
	*depth = pick.depth;
	if ((pick.facts & LOCATION_IS_IGNORED) != 0)
		return false;
	if (filter_has_focus(stack_filter->filter) && (pick.facts & LOCATION_HAS_FOCUS) == 0)
		return false;
	return pick.depth != 0 || !filter_drops_empty(stack_filter->filter);
}

bool stack_filter_samples(const struct stack_filter *stack_filter,
	const struct profile_sample **samples, size_t *count, struct error *err)
{
	const struct profile *const profile = stack_filter->profile;

	if (!filter_needs_threads(stack_filter->filter)) {
		*samples = profile->samples;
		*count = profile->sample_count;
		return true;
	}
	*samples = profile->thread_samples;
	*count = profile->thread_sample_count;
	if (*count == 0 && profile->sample_count != 0)
		return error_set(
			err, ERROR_USAGE, "%s has no figures of single threads", profile->name);
	return true;
}
