/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/filter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/allocator_frames.h"
#include "analysis/function_name.h"
#include "analysis/sample_tag.h"
#include "base/xalloc.h"

enum role { FOCUS, IGNORE, RETAIN, EXCLUDE, SHOW, HIDE, SHOW_FROM, PRUNE_FROM, ROLES };

struct filter {
	struct pattern *patterns[ROLES];
	struct sample_tag *tags; /* those that must match, then those that must not */
	size_t tag_count, wanted_tag_count;
	char *thread;
	struct buffer name; /* for making names */
};

static bool name_threads(const struct filter_tags *tags)
{
	for (size_t i = 0; i < tags->count; i++) {
		if (strncmp(tags->texts[i], "bytes=", 6) != 0)
			return true;
	}
	return false;
}

bool filter_text_names_threads(const struct filter_text *text)
{
	return text->thread != NULL || name_threads(&text->tags) ||
	       name_threads(&text->ignored_tags);
}

static bool compile_patterns(
	struct filter *filter, const struct filter_text *text, struct error *err)
{
	const char *const texts[ROLES] = { text->focus, text->ignore, text->retain, text->exclude,
		text->show, text->hide, text->show_from, text->prune_from };

	for (int role = 0; role < ROLES; role++) {
		if (texts[role] == NULL || texts[role][0] == '\0')
			continue;
		if (!pattern_new(texts[role], &filter->patterns[role], err))
			return false;
	}
	return true;
}

static bool add_tags(struct filter *filter, const struct filter_tags *tags, struct error *err)
{
	for (size_t i = 0; i < tags->count; i++) {
		if (!sample_tag_parse(tags->texts[i], &filter->tags[filter->tag_count], err))
			return false;
		filter->tag_count++;
	}
	return true;
}

bool filter_new(const struct filter_text *text, struct filter **ret, struct error *err)
{
	CLEANUP(filter_cleanup) struct filter *filter = xcalloc(1, sizeof *filter);

	buffer_init(&filter->name, &memory_or_exit);
	if (!compile_patterns(filter, text, err))
		return false;
	filter->tags = xcalloc(text->tags.count + text->ignored_tags.count, sizeof *filter->tags);
	filter->wanted_tag_count = text->tags.count;
	if (!add_tags(filter, &text->tags, err) || !add_tags(filter, &text->ignored_tags, err))
		return false;
	if (text->thread != NULL)
		filter->thread = xstrdup(text->thread);
	*ret = TAKE(filter);
	return true;
}

void filter_free(struct filter *filter)
{
	if (filter == NULL)
		return;
	for (int role = 0; role < ROLES; role++)
		pattern_free(filter->patterns[role]);
	for (size_t i = 0; i < filter->tag_count; i++)
		sample_tag_deinit(&filter->tags[i]);
	free(filter->tags);
	free(filter->thread);
	buffer_deinit(&filter->name);
	free(filter);
}

bool filter_matches_function(struct pattern *pattern, struct buffer *scratch, const char *function)
{
	buffer_clear(scratch);
	function_name_append_short(scratch, function);
	if (pattern_matches(pattern, buffer_string(scratch)))
		return true;
	if (strpbrk(function, "<>") == NULL)
		return false;
	buffer_clear(scratch);
	function_name_append_bare(scratch, function);
	return pattern_matches(pattern, buffer_string(scratch));
}

static bool matches_frame(
	struct filter *filter, struct pattern *pattern, const struct profile_frame *frame)
{
	if (frame->function[0] != '\0' &&
		filter_matches_function(pattern, &filter->name, frame->function))
		return true;
	if (frame->file[0] == '\0')
		return false;
	buffer_clear(&filter->name);
	buffer_printf(&filter->name, "%s:%u", frame->file, frame->line);
	return pattern_matches(pattern, buffer_string(&filter->name));
}

/* An address as profiles have it in jeprof: what is looked up, in 16 digits. */
static void format_address(const struct profile_location *location, char text[17])
{
	snprintf(text, 17, "%016" PRIx64, location->address - !location->is_exact);
}

static bool matches_location(struct filter *filter, struct pattern *pattern,
	const struct profile *profile, const struct profile_location *location)
{
	char address[17];

	if (location->address != 0) {
		format_address(location, address);
		if (pattern_matches(pattern, address))
			return true;
	}
	for (uint32_t i = 0; i < location->frame_count; i++) {
		if (matches_frame(filter, pattern, &profile->frames[location->first_frame + i]))
			return true;
	}
	return false;
}

static bool matches_outermost(struct filter *filter, struct pattern *pattern,
	const struct profile *profile, const struct profile_location *location)
{
	char address[17];

	if (location->frame_count != 0) {
		const struct profile_frame *const frame =
			&profile->frames[location->first_frame + location->frame_count - 1];
		if (frame->function[0] != '\0')
			return filter_matches_function(pattern, &filter->name, frame->function);
	}
	format_address(location, address);
	return pattern_matches(pattern, address);
}

static uint8_t judge_location(struct filter *filter, const struct profile *profile,
	const struct profile_location *location)
{
	struct pattern *const *const patterns = filter->patterns;
	uint8_t facts = 0;

	if (patterns[FOCUS] != NULL && matches_location(filter, patterns[FOCUS], profile, location))
		facts |= LOCATION_HAS_FOCUS;
	if (patterns[IGNORE] != NULL &&
		matches_location(filter, patterns[IGNORE], profile, location))
		facts |= LOCATION_IS_IGNORED;
	if (patterns[SHOW_FROM] != NULL &&
		matches_location(filter, patterns[SHOW_FROM], profile, location))
		facts |= LOCATION_IS_START;
	if (patterns[RETAIN] != NULL &&
		!matches_outermost(filter, patterns[RETAIN], profile, location))
		facts = LOCATION_IS_DROPPED;
	if (patterns[EXCLUDE] != NULL &&
		matches_outermost(filter, patterns[EXCLUDE], profile, location))
		facts = LOCATION_IS_DROPPED;
	return facts;
}

bool filter_shows(struct filter *filter, const struct profile_frame *frame)
{
	struct pattern *const show = filter->patterns[SHOW];
	struct pattern *const hide = filter->patterns[HIDE];

	return (show == NULL || matches_frame(filter, show, frame)) &&
	       (hide == NULL || !matches_frame(filter, hide, frame));
}

bool filter_has_focus(const struct filter *filter)
{
	return filter->patterns[FOCUS] != NULL;
}

bool filter_cuts_stacks(const struct filter *filter)
{
	return filter->patterns[SHOW_FROM] != NULL || filter->patterns[PRUNE_FROM] != NULL;
}

bool filter_drops_empty(const struct filter *filter)
{
	return filter->patterns[RETAIN] != NULL || filter->patterns[EXCLUDE] != NULL ||
	       filter->patterns[SHOW] != NULL || filter->patterns[HIDE] != NULL;
}

bool filter_is_thread(const struct profile_thread *thread, const char *wanted)
{
	char number[24];

	snprintf(number, sizeof number, "%" PRIu64, thread->id);
	return strcmp(wanted, thread->name) == 0 || strcmp(wanted, number) == 0 ||
	       (wanted[0] == 't' && strcmp(wanted + 1, number) == 0);
}

static const struct profile_thread *thread_of(
	const struct profile *profile, const struct profile_sample *sample)
{
	static const struct profile_thread unknown = { .id = UINT64_MAX, .name = "" };

	return sample->thread == PROFILE_NONE ? &unknown : &profile->threads[sample->thread];
}

bool filter_takes_thread(
	struct filter *filter, const struct profile *profile, const struct profile_sample *sample)
{
	return filter->thread == NULL ||
	       (sample->thread != PROFILE_NONE &&
		       filter_is_thread(thread_of(profile, sample), filter->thread));
}

bool filter_takes(
	struct filter *filter, const struct profile *profile, const struct profile_sample *sample)
{
	const char *const thread = thread_of(profile, sample)->name;

	if (!filter_takes_thread(filter, profile, sample))
		return false;
	for (size_t i = 0; i < filter->tag_count; i++) {
		const bool is_wanted = i < filter->wanted_tag_count;
		if (sample_tag_matches(&filter->tags[i], sample, thread) != is_wanted)
			return false;
	}
	return true;
}

bool filter_check(const struct filter *filter, struct error *err)
{
	for (int role = 0; role < ROLES; role++) {
		if (!pattern_check(filter->patterns[role], err))
			return false;
	}
	for (size_t i = 0; i < filter->tag_count; i++) {
		if (!pattern_check(filter->tags[i].thread, err))
			return false;
	}
	return true;
}

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
	free(stack_filter->pruned);
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

/* The innermost frame that prune_from means, of those that are shown; false when there is none. */
static bool find_end(struct stack_filter *stack_filter, size_t position, uint32_t *at)
{
	struct filter *const filter = stack_filter->filter;
	const struct profile_location *const location = &stack_filter->profile->locations[position];
	const struct profile_frame *const frames =
		stack_filter->profile->frames + location->first_frame;

	*at = stack_filter->wrapper_facts == NULL ? 0
						  : stack_filter->wrapper_facts[position].inlined;
	for (; *at < location->frame_count; ++*at) {
		const struct profile_frame *const frame = &frames[*at];
		if (frame->function[0] != '\0' &&
			filter_matches_function(
				filter->patterns[PRUNE_FROM], &filter->name, frame->function) &&
			filter_shows(filter, frame))
			return true;
	}
	return false;
}

/* What is inlined into it in its location is cut off there; its other callees are in others. */
static void find_ends(struct stack_filter *stack_filter)
{
	const struct profile *const profile = stack_filter->profile;
	uint32_t at;

	if (stack_filter->filter->patterns[PRUNE_FROM] == NULL)
		return;
	stack_filter->pruned = xreallocarray(
		stack_filter->pruned, profile->location_count, sizeof *stack_filter->pruned);
	for (size_t i = 0; i < profile->location_count; i++) {
		stack_filter->pruned[i] = 0;
		if ((stack_filter->facts[i] & LOCATION_IS_DROPPED) != 0 ||
			!find_end(stack_filter, i, &at))
			continue;
		stack_filter->pruned[i] = at;
		stack_filter->facts[i] |= LOCATION_IS_END;
	}
}

static uint8_t find_facts(
	struct stack_filter *stack_filter, const struct profile_location *location)
{
	const uint8_t facts = judge_location(stack_filter->filter, stack_filter->profile, location);

	if (stack_filter->pruning != PRUNE_NOTHING &&
		is_allocator(stack_filter, stack_filter->profile, location))
		return facts | LOCATION_IS_ALLOCATOR;
	return facts;
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
	find_ends(stack_filter);
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

/* Up to the outermost location that show_from means; there is one. */
static size_t depth_to_start(const struct stack_filter *stack_filter, const struct pick *pick)
{
	size_t depth = pick->depth;

	while ((stack_filter->facts[pick->locations[depth - 1]] & LOCATION_IS_START) == 0)
		depth--;
	return depth;
}

/* Starts at the innermost location that prune_from means, if one is left. */
static void cut_callees(
	const struct stack_filter *stack_filter, const uint32_t **locations, size_t *depth)
{
	size_t cut = 0;

	while (cut < *depth && (stack_filter->facts[(*locations)[cut]] & LOCATION_IS_END) == 0)
		cut++;
	if (cut == *depth)
		return;
	*locations += cut;
	*depth -= cut;
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
	if (stack_filter->filter->patterns[SHOW_FROM] != NULL) {
		if ((pick.facts & LOCATION_IS_START) == 0)
			return false;
		*depth = depth_to_start(stack_filter, &pick);
	}
	if ((pick.facts & LOCATION_IS_END) != 0)
		cut_callees(stack_filter, ret, depth);
	return pick.depth != 0 || !filter_drops_empty(stack_filter->filter);
}

static bool needs_threads(const struct filter *filter)
{
	if (filter->thread != NULL)
		return true;
	for (size_t i = 0; i < filter->tag_count; i++) {
		if (filter->tags[i].thread != NULL)
			return true;
	}
	return false;
}

bool stack_filter_samples(const struct stack_filter *stack_filter,
	const struct profile_sample **samples, size_t *count, struct error *err)
{
	const struct profile *const profile = stack_filter->profile;

	if (!needs_threads(stack_filter->filter)) {
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
