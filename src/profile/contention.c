/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gperftools' profile of waiting for locks:
 *
 *	--- contention:
 *	cycles/second = 2800000000
 *	sampling period = 100
 *	      2178     12 @ 0x40f2a1 0x40c77d		cycles waited, how often
 *
 * followed by the mapped files. Cycles become nanoseconds, and both counts are multiplied by the
 * sampling period, so that the profile is weighted.
 */
#include "profile/readers.h"

#include "profile/text_profile.h"

/* Of old programs, which did not write it; jeprof assumes the same. */
#define DEFAULT_CYCLES_PER_SECOND 2.8e9

struct contention_reader {
	struct text_profile text;
	double cycles_per_second;
	double sampling_period;
};

static bool detect(struct cursor in)
{
	if (!text_at(&in, "---"))
		return false;
	cursor_skip(&in, 3);
	text_skip_blanks(&in);
	/* "mutex" is Go's. */
	return text_at(&in, "contention") || text_at(&in, "mutex:") || text_at(&in, "Stacks:");
}

/* "2178 12 @ 0x1 0x2", or in older files "2178 @ 0x1 0x2" */
static void read_sample(struct contention_reader *reader)
{
	struct cursor *const in = reader->text.in;
	struct profile_sample sample = { .thread = PROFILE_NONE };

	sample.counters[PROFILE_INUSE_SPACE] = (double)text_decimal(in);
	text_skip_blanks(in);
	sample.counters[PROFILE_INUSE_OBJECTS] =
		text_peek(in) == '@' ? 1 : (double)text_decimal(in);
	if (!text_profile_expect(&reader->text, '@', "'@' was expected before the stack"))
		return;
	sample.stack = text_profile_stack(&reader->text);
	if (!cursor_more(in))
		cursor_fail(in, TEXT_CUT_STACK_PROBLEM);
	if (cursor_ok(in))
		profile_add_sample(reader->text.profile, &sample);
}

/* "cycles/second = 2800000000"; variables of other names have no use here. */
static bool read_variable(struct contention_reader *reader)
{
	static const char rate[] = "cycles/second";
	static const char period[] = "sampling period";
	struct cursor in = *reader->text.in;
	double *const value = text_at(&in, rate)     ? &reader->cycles_per_second
			      : text_at(&in, period) ? &reader->sampling_period
						     : NULL;

	if (value == NULL)
		return false;
	cursor_skip(&in, value == &reader->cycles_per_second ? sizeof rate - 1 : sizeof period - 1);
	text_skip_blanks(&in);
	if (!text_accept(&in, '='))
		return false;
	text_skip_blanks(&in);
	*value = (double)text_decimal(&in);
	/* Go writes a period of 0 where it takes no samples. */
	if (*value == 0 && value == &reader->sampling_period)
		*value = 1;
	else if (cursor_ok(&in) && *value == 0)
		cursor_fail(&in, "it must be above 0");
	*reader->text.in = in;
	return true;
}

static void read_line(struct contention_reader *reader)
{
	struct cursor *const in = reader->text.in;

	text_skip_blanks(in);
	struct text_line line = { 0 };
	struct cursor ahead = *in;
	const bool has_stack = text_line(&ahead, &line) && line.size != 0 &&
			       memchr(line.text, '@', line.size) != NULL;

	if (has_stack && (unsigned)line.text[0] - '0' <= 9)
		read_sample(reader);
	else if (map_section_at(in))
		map_section_read(in, reader->text.profile);
	else if (!read_variable(reader))
		text_profile_unknown_line(&reader->text);
}

/* The rate may follow samples, so scaling comes last. */
static void scale(struct contention_reader *reader)
{
	struct profile *const profile = reader->text.profile;

	for (size_t i = 0; i < profile->sample_count; i++) {
		double *const counters = profile->samples[i].counters;
		counters[PROFILE_INUSE_OBJECTS] *= reader->sampling_period;
		counters[PROFILE_INUSE_SPACE] *=
			reader->sampling_period * 1e9 / reader->cycles_per_second;
	}
}

static bool read_profile(struct cursor *in, struct profile *profile, struct error *err)
{
	struct contention_reader reader = {
		.cycles_per_second = DEFAULT_CYCLES_PER_SECOND,
		.sampling_period = 1,
	};
	struct text_line title;

	(void)err;
	profile->kind = PROFILE_CONTENTION;
	profile->weighting = PROFILE_WEIGHTED;
	text_profile_init(&reader.text, in, profile);
	if (text_line(in, &title))
		while (cursor_more(in))
			read_line(&reader);
	scale(&reader);
	text_profile_end_go_names(&reader.text, false);
	text_profile_deinit(&reader.text);
	return cursor_ok(in);
}

const struct profile_reader contention_reader = { detect, read_profile, false };
