/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects stacks, frames and samples of a profile. All patterns are Perl's.
 *
 *	focus, ignore	stacks with a location that matches, by its address (16 hex digits),
 *			one of its names, or "file:line": only those; all but those
 *	retain, exclude	locations by the name of their outermost function: only those; all but
 *			those. A stack that ends up empty is dropped.
 *	show, hide	frames, inlined ones too, by name or file: only those; all but those
 *	show_from	stacks with a location that matches as for focus: from the outermost such
 *			location on, without its callers
 *	prune_from	frames by the name of their function: from the innermost one that matches,
 *			what it calls is cut off, so that it allocates that itself
 *	tags		samples: "thread=PATTERN" by the thread's name, "bytes=LOW:HIGH" by the
 *			size of one object, either end may be missing; all must match
 *	ignored_tags	likewise: none may match
 *	thread		samples of the threads with that number, or with exactly that name
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analysis/allocator_wrappers.h"
#include "analysis/pattern.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/string_pool.h"
#include "profile/profile.h"

struct filter_tags {
	const char *const *texts;
	size_t count;
};

struct filter_text {
	const char *focus, *ignore, *retain, *exclude, *show, *hide, *show_from,
		*prune_from; /* NULL or "" for none */
	struct filter_tags tags, ignored_tags;
	const char *thread; /* NULL for all */
};

/* Whether it is about single threads. */
bool filter_text_names_threads(const struct filter_text *text);

struct filter;

MUST_CHECK bool filter_new(const struct filter_text *text, struct filter **ret, struct error *err);
void filter_free(struct filter *filter);

DEFINE_CLEANUP(filter_cleanup, struct filter *, filter_free)

/* Whether show and hide leave the frame. */
bool filter_shows(struct filter *filter, const struct profile_frame *frame);

/* Whether stacks are selected, or their ends cut off, by patterns. */
bool filter_has_focus(const struct filter *filter);
bool filter_cuts_stacks(const struct filter *filter);
bool filter_drops_empty(const struct filter *filter);

/* Whether `wanted` means this thread: its name, "7" or "t7". */
bool filter_is_thread(const struct profile_thread *thread, const char *wanted);

/* Whether the sample is of the wanted thread, whatever the other filters say of it. */
bool filter_takes_thread(
	struct filter *filter, const struct profile *profile, const struct profile_sample *sample);
bool filter_takes(
	struct filter *filter, const struct profile *profile, const struct profile_sample *sample);

/* Whether a function's name matches, with or without what is in angle brackets. */
bool filter_matches_function(struct pattern *pattern, struct buffer *scratch, const char *function);

/* ERROR_USAGE when a pattern exceeded its limits. */
MUST_CHECK bool filter_check(const struct filter *filter, struct error *err);

/* What is known of a location, as bits, so that a whole stack is judged in one pass. */
enum location_fact {
	LOCATION_IS_ALLOCATOR = 1,
	LOCATION_IS_DROPPED = 2, /* and then neither of the following */
	LOCATION_IS_IGNORED = 4,
	LOCATION_HAS_FOCUS = 8,
	LOCATION_IS_WRAPPER = 16, /* between the allocator and the program */
	LOCATION_IS_START = 32,	  /* show_from */
	LOCATION_IS_END = 64,	  /* prune_from */
};

/* What is cut off at the leaf. */
enum stack_pruning {
	PRUNE_WRAPPERS,	 /* the allocator's frames and those of wrappers (allocator_wrappers.h) */
	PRUNE_ALLOCATOR, /* what jeprof cuts off */
	PRUNE_NOTHING,
};

/*
 * Selects stacks of a profile, and parts of them: without the frames of the allocator and of
 * wrappers at the leaf, and as the filter says. Each location is judged once.
 */
struct stack_filter {
	struct filter *filter;
	enum stack_pruning pruning;
	struct allocator_wrappers *wrappers;	  /* NULL when none are cut off */
	const struct wrapper_fact *wrapper_facts; /* of the profile, NULL as above */
	const struct profile *profile;
	uint8_t *facts;	  /* one for each location of the profile */
	uint32_t *pruned; /* of its frames, those that prune_from cuts off; NULL without it */
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

/* The location as it is shown: without wrappers, and what prune_from cuts off, inlined there. */
static inline struct profile_location stack_filter_location(
	const struct stack_filter *stack_filter, uint32_t at)
{
	struct profile_location location = stack_filter->profile->locations[at];
	uint32_t cut = 0;

	if (stack_filter->wrapper_facts != NULL)
		cut = stack_filter->wrapper_facts[at].inlined;
	if (stack_filter->pruned != NULL && stack_filter->pruned[at] > cut)
		cut = stack_filter->pruned[at];
	location.first_frame += cut;
	location.frame_count -= cut;
	return location;
}
