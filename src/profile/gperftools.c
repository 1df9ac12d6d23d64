/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text formats of gperftools' tcmalloc:
 *
 *	heap profile:   1246:  8800744 [  1246:  8800744] @ heap_v2/524288
 *	     1:     4096 [     1:     4096] @ 0x40f2a1 0x40c77d
 *	...
 *	MAPPED_LIBRARIES:
 *
 * The word after the last '@' of the first line says how the counters are meant: "heapprofile"
 * and "growth" are exact, "heap/P" and "heap_v2/P" sampled. Without it, sampled when the live
 * objects are exactly those that were ever allocated. (jeprof's rules, kept.)
 *
 * Go writes the same form for ?debug=1, with names after each stack, and twice its mean interval
 * as P of "heap/P" (runtime/pprof's writeHeapInternal). Its runtime samples bytes as heap_v2 does.
 */
#include "profile/readers.h"

#include "profile/text_profile.h"

/* Where the input does not say it. */
#define DEFAULT_MEAN_BYTES (UINT64_C(128) * 1024)

static const char title[] = "heap profile:";

static bool detect(struct cursor in)
{
	return text_at(&in, title);
}

static bool contains(const struct text_line *text, const char *part)
{
	return text->size != 0 && memmem(text->text, text->size, part, strlen(part)) != NULL;
}

/* The interval of "heap/P" is the mean doubled, so that of the default is, too. */
static void set_sampling(struct profile *profile, enum profile_weighting weighting, uint64_t period)
{
	const uint64_t by_default =
		weighting == PROFILE_RATIO ? 2 * DEFAULT_MEAN_BYTES : DEFAULT_MEAN_BYTES;

	profile->weighting = weighting;
	profile->interval_bytes = period != 0 ? period : by_default;
}

/* `type` is what is between '@' and '/'. */
static void set_type(struct profile *profile, const struct text_line *type, uint64_t period)
{
	const double *const totals = profile->header_counters;

	profile->kind = contains(type, "growth") ? PROFILE_GROWTH : PROFILE_HEAP;
	profile->weighting = PROFILE_WEIGHTED;
	if (type->size == 0) {
		if (totals[PROFILE_INUSE_OBJECTS] == totals[PROFILE_ALLOC_OBJECTS] &&
			totals[PROFILE_INUSE_SPACE] == totals[PROFILE_ALLOC_SPACE])
			set_sampling(profile, PROFILE_RATIO, 0);
	} else if (contains(type, "heapprofile") || !contains(type, "heap")) {
		profile->weighting = PROFILE_WEIGHTED;
	} else {
		set_sampling(profile, contains(type, "_v2") ? PROFILE_EXPONENTIAL : PROFILE_RATIO,
			period);
	}
	profile->is_complete =
		profile->kind == PROFILE_HEAP && profile->weighting == PROFILE_WEIGHTED;
}

/* " 1: 4096 [1: 4096] @ heap_v2/524288" of the first line. Returns the last number; 0 without. */
static uint64_t read_header(struct text_profile *text)
{
	struct text_line rest = { 0 };
	uint64_t period = 0;

	cursor_skip(text->in, sizeof title - 1);
	text_skip_blanks(text->in);
	if (!text_profile_counters(text, text->profile->header_counters))
		return 0;
	if (!text_accept(text->in, '@')) {
		text_line(text->in, &rest);
		set_type(text->profile, &(struct text_line){ 0 }, 0);
		return 0;
	}
	text_skip_blanks(text->in);
	if (!text_line(text->in, &rest))
		rest = (struct text_line){ 0 };
	const char *const slash = rest.size == 0 ? NULL : memchr(rest.text, '/', rest.size);
	if (slash != NULL) {
		const size_t type_size = (size_t)(slash - rest.text);
		struct cursor number = cursor_over(slash + 1, rest.size - type_size - 1);
		period = text_decimal(&number);
		rest.size = type_size;
	}
	set_type(text->profile, &rest, period);
	return period;
}

/* "1: 4096 [1: 4096] @ 0x1 0x2" */
static void read_sample(struct text_profile *text)
{
	struct profile_sample sample = { .thread = PROFILE_NONE };

	if (!text_profile_counters(text, sample.counters) ||
		!text_profile_expect(text, '@', "'@' was expected before the stack"))
		return;
	sample.stack = text_profile_stack(text);
	if (!cursor_more(text->in))
		cursor_fail(text->in, TEXT_CUT_STACK_PROBLEM);
	if (cursor_ok(text->in))
		profile_add_sample(text->profile, &sample);
}

/*
 * How Go's runtime samples, which the first line alone does not show. A mean interval of 1 records
 * all, and after 0 nothing more is sampled: neither is scaled.
 */
static void set_go_sampling(struct profile *profile, uint64_t period)
{
	if (profile->weighting != PROFILE_RATIO)
		return;
	if (period / 2 > 1) {
		set_sampling(profile, PROFILE_EXPONENTIAL, period / 2);
		return;
	}
	profile->weighting = PROFILE_WEIGHTED;
	profile->interval_bytes = 0;
	profile->is_complete = period != 0;
}

/* The header has the sums of the stacks, unless its writer does not know them: 0. */
static bool lacks_stacks(const struct profile *profile)
{
	for (size_t counter = 0; counter < PROFILE_COUNTERS; counter++) {
		double sum = 0;
		for (size_t i = 0; i < profile->sample_count; i++)
			sum += profile->samples[i].counters[counter];
		if (sum < profile->header_counters[counter])
			return true;
	}
	return false;
}

static bool at_digit(const struct cursor *in)
{
	return cursor_left(in) != 0 && (unsigned)*in->position - '0' <= 9;
}

static bool read_profile(struct cursor *in, struct profile *profile, struct error *err)
{
	struct text_profile text;

	(void)err;
	text_profile_init(&text, in, profile);
	const uint64_t period = read_header(&text);
	while (cursor_more(in)) {
		text_skip_blanks(in);
		if (at_digit(in))
			read_sample(&text);
		else if (map_section_at(in))
			map_section_read(in, profile);
		else
			text_profile_unknown_line(&text);
	}
	text_profile_end_go_names(&text, true);
	if (profile->has_go_names)
		set_go_sampling(profile, period);
	text_profile_deinit(&text);
	profile->lacks_stacks = lacks_stacks(profile);
	return cursor_ok(in);
}

const struct profile_reader gperftools_reader = { detect, read_profile, false };
