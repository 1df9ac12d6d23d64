/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the input as one format. What can be read must be consistent, and what is written of it
 * must be readable again.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>

#include "profile/profile_read.h"
#include "profile/pprof.h"
#include "profile/readers.h"
#include "profile/symbolized.h"

#define FUZZ_CHECK(condition)     \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static inline void fuzz_check_profile(const struct profile *profile)
{
	for (size_t i = 0; i < profile->sample_count; i++)
		FUZZ_CHECK(profile->samples[i].stack < profile->stack_count);
	for (size_t i = 0; i < profile->thread_sample_count; i++)
		FUZZ_CHECK(profile->thread_samples[i].thread < profile->thread_count);
	for (size_t i = 0; i < profile->stack_location_count; i++)
		FUZZ_CHECK(profile->stack_locations[i] < profile->location_count);
	for (size_t i = 0; i < profile->location_count; i++) {
		const struct profile_location *const location = &profile->locations[i];
		FUZZ_CHECK(location->mapping == PROFILE_NONE ||
			   location->mapping < profile->mapping_count);
		FUZZ_CHECK(location->frame_count == 0 ||
			   location->first_frame + (uint64_t)location->frame_count <=
				   profile->frame_count);
	}
}

static inline void fuzz_read_again(const struct buffer *written, size_t sample_count)
{
	struct profile *again = NULL;
	struct error err = { 0 };

	FUZZ_CHECK(profile_read("again", written->data, written->size, NULL, &again, &err));
	FUZZ_CHECK(again->sample_count == sample_count);
	profile_free(again);
}

static inline bool fuzz_is_allocator(enum profile_kind kind, const char *path)
{
	return kind == PROFILE_HEAP && path[0] != '\0';
}

static inline void fuzz_write(const struct profile *profile)
{
	const struct pprof_write_options options = { .plain = true };
	struct error err = { 0 };
	struct buffer out;

	buffer_init(&out, &memory_heap);
	FUZZ_CHECK(pprof_write(
		profile, profile->samples, profile->sample_count, &options, &out, &err));
	fuzz_read_again(&out, profile->sample_count);
	buffer_clear(&out);
	if (symbolized_write(profile, fuzz_is_allocator, &out, &err))
		fuzz_read_again(&out, profile->sample_count);
	buffer_deinit(&out);
}

static inline int fuzz_format(const struct profile_reader *format, const uint8_t *data, size_t size)
{
	struct profile *const profile = profile_new("fuzz");
	struct cursor in = cursor_over(data, size);
	struct error err = { 0 };

	if (format->detect(in) && format->read(&in, profile, &err)) {
		FUZZ_CHECK(cursor_ok(&in));
		profile_assign_mappings(profile);
		fuzz_check_profile(profile);
		fuzz_write(profile);
	}
	profile_free(profile);
	return 0;
}
