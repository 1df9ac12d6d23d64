/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects stacks of a profile, and parts of them: without the frames of the allocator and of
 * wrappers at the leaf, and as the filter says. Each location is judged once.
 */
#pragma once

#include "analysis/allocator_wrappers.h"
#include "analysis/filter.h"
#include "base/buffer.h"
#include "base/string_pool.h"

/* What is known of a location, as bits, so that a whole stack is judged in one pass. */
enum location_fact {
	LOCATION_IS_ALLOCATOR = 1,
	LOCATION_IS_DROPPED = 2, /* and then neither of the following */
	LOCATION_IS_IGNORED = 4,
	LOCATION_HAS_FOCUS = 8,
	LOCATION_IS_WRAPPER = 16, /* between the allocator and the program */
};

/* What is cut off at the leaf. */
enum stack_pruning {
	PRUNE_WRAPPERS,	 /* the allocator's frames and those of wrappers (allocator_wrappers.h) */
	PRUNE_ALLOCATOR, /* what jeprof cuts off */
	PRUNE_NOTHING,
};

struct stack_filter {
	struct filter *filter;
	enum stack_pruning pruning;
	struct allocator_wrappers *wrappers;	  /* NULL when none are cut off */
	const struct wrapper_fact *wrapper_facts; /* of the profile, NULL as above */
	const struct profile *profile;
	uint8_t *facts; /* one for each location of the profile */
	uint32_t *locations;
	size_t location_capacity;
	struct buffer text;
	/* Names that were judged, and whether each is the allocator's: many functions may share
	 * one. */
	struct text_numbers names;
	bool *name_is_allocator;
	size_t name_capacity;
};

void stack_filter_init(
	struct stack_filter *stack_filter, struct filter *filter, enum stack_pruning pruning);
void stack_filter_deinit(struct stack_filter *stack_filter);

/* All profiles that will be entered, before the first one is. They are borrowed. */
void stack_filter_prepare(
	struct stack_filter *stack_filter, const struct profile *const *profiles, size_t count);

/* Stacks come from this profile now. */
void stack_filter_enter(struct stack_filter *stack_filter, const struct profile *profile);

/*
 * The locations to show of a stack, leaf first, valid until the next call; false when the stack is
 * left out. The depth may be 0: nothing but the allocator, or the unwinder failed.
 */
bool stack_filter_pick(struct stack_filter *stack_filter, const struct profile_stack *stack,
	const uint32_t **locations, size_t *depth);

/* The samples to visit: of all threads together, or of single threads if the filter names one. */
MUST_CHECK bool stack_filter_samples(const struct stack_filter *stack_filter,
	const struct profile_sample **samples, size_t *count, struct error *err);

/* The location as it is shown: without wrappers that were inlined at its leaf. */
static inline struct profile_location stack_filter_location(
	const struct stack_filter *stack_filter, uint32_t at)
{
	struct profile_location location = stack_filter->profile->locations[at];

	if (stack_filter->wrapper_facts != NULL) {
		location.first_frame += stack_filter->wrapper_facts[at].inlined;
		location.frame_count -= stack_filter->wrapper_facts[at].inlined;
	}
	return location;
}
