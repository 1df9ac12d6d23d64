/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gperftools' binary CPU profile: machine words of the profiled program, 32 or 64 bits, of either
 * byte order, then its mapped files as text.
 *
 *	0, header words that follow (3), version (0), microseconds between samples, padding
 *	samples, depth, addresses...		as often as needed, leaf first
 *	0, 1, 0
 */
#include "profile/readers.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "profile/text_profile.h"

enum {
	MIN_HEADER = 3, /* words after the first two */
	MAX_HEADER = 1024,
};

struct word_format {
	bool is_64_bits;
	bool is_big_endian;
};

static const struct word_format formats[] = {
	{ true, false },
	{ true, true },
	{ false, false },
	{ false, true },
};

static uint64_t read_word(struct cursor *in, struct word_format format)
{
	if (format.is_64_bits) {
		const uint64_t word = cursor_u64(in);
		return format.is_big_endian ? __builtin_bswap64(word) : word;
	}
	const uint32_t word = cursor_u32(in);
	return format.is_big_endian ? __builtin_bswap32(word) : word;
}

/* The word format of the header; false when it is not a CPU profile. */
static bool find_format(struct cursor in, struct word_format *format)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		struct cursor at = in;
		const uint64_t zero = read_word(&at, formats[i]);
		const uint64_t header = read_word(&at, formats[i]);
		const uint64_t version = read_word(&at, formats[i]);
		if (cursor_ok(&at) && zero == 0 && header >= MIN_HEADER && header <= MAX_HEADER &&
			version == 0) {
			*format = formats[i];
			return true;
		}
	}
	return false;
}

static bool detect(struct cursor in)
{
	struct word_format format;

	return find_format(in, &format);
}

/* The microseconds between two samples. */
static uint64_t read_header(struct cursor *in, struct word_format format)
{
	read_word(in, format);
	const uint64_t header = read_word(in, format);

	read_word(in, format);
	const uint64_t period = read_word(in, format);
	if (cursor_ok(in) && period > UINT32_MAX)
		cursor_fail(in, "invalid sampling period");
	for (uint64_t i = 2; i < header; i++)
		read_word(in, format);
	return period;
}

/* The leaf is where the program was interrupted; the others are return addresses. */
static uint32_t read_stack(
	struct cursor *in, struct word_format format, struct profile *profile, uint64_t depth)
{
	if (depth > cursor_left(in) / (format.is_64_bits ? 8 : 4)) {
		cursor_fail(in, TEXT_CUT_STACK_PROBLEM);
		return PROFILE_NONE;
	}
	CLEANUP(free_cleanup) uint32_t *locations = xreallocarray(NULL, depth, sizeof *locations);
	for (uint64_t i = 0; i < depth; i++) {
		const uint64_t address = read_word(in, format);
		locations[i] = i == 0 ? profile_add_exact_address(profile, address)
				      : profile_add_address(profile, address);
	}
	return profile_add_stack(profile, locations, depth);
}

/* False after the last record. */
static bool read_record(
	struct cursor *in, struct word_format format, struct profile *profile, double nanoseconds)
{
	const uint64_t samples = read_word(in, format);
	const uint64_t depth = read_word(in, format);
	struct cursor ahead = *in;

	if (cursor_ok(in) && depth > PROFILE_STACK_LIMIT)
		cursor_fail(in, PROFILE_STACK_PROBLEM);
	if (!cursor_ok(in))
		return false;
	if (depth != 0 && read_word(&ahead, format) == 0) {
		for (uint64_t i = 0; i < depth && cursor_ok(in); i++)
			read_word(in, format);
		return false;
	}
	struct profile_sample sample = { .thread = PROFILE_NONE };
	sample.stack = read_stack(in, format, profile, depth);
	sample.counters[PROFILE_INUSE_OBJECTS] = (double)samples;
	sample.counters[PROFILE_INUSE_SPACE] = (double)samples * nanoseconds;
	if (profile_is_full(profile))
		cursor_fail(in, PROFILE_FULL_PROBLEM);
	if (cursor_ok(in))
		profile_add_sample(profile, &sample);
	return cursor_ok(in);
}

static bool read_profile(struct cursor *in, struct profile *profile, struct error *err)
{
	struct word_format format;

	(void)err;
	if (!find_format(*in, &format)) {
		cursor_fail(in, "this is not a CPU profile");
		return false;
	}
	profile->kind = PROFILE_CPU;
	profile->weighting = PROFILE_WEIGHTED;
	const double nanoseconds = 1000.0 * (double)read_header(in, format);
	while (read_record(in, format, profile, nanoseconds))
		continue;
	if (!cursor_ok(in))
		return false;
	profile->has_mappings = cursor_left(in) != 0;
	map_section_read_lines(in, profile);
	return cursor_ok(in);
}

const struct profile_reader cpu_profile_reader = { detect, read_profile, true };
