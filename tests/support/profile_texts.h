/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading profiles that a test writes down as text, and asking what became of them.
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "profile/profile_read.h"
#include "unit.h"

/* The profile in the text, which must be readable. Free with profile_free. */
static inline struct profile *must_read(const void *text, size_t size)
{
	struct profile *profile = NULL;
	struct error err = { 0 };

	if (!profile_read("test", text, size, NULL, &profile, &err))
		fail_msg("%s", err.message);
	return profile;
}

static inline struct profile *must_read_text(const char *text)
{
	return must_read(text, strlen(text));
}

/* The input must be refused with a message that contains `part`. */
#define assert_refused(text, size, part)                                                        \
	do {                                                                                    \
		struct profile *refused_ = NULL;                                                \
		struct error refusal_ = { 0 };                                                  \
		assert_false(profile_read("test", (text), (size), NULL, &refused_, &refusal_)); \
		assert_null(refused_);                                                          \
		assert_contains(refusal_.message, (part));                                      \
	} while (0)

#define assert_text_refused(text, part) assert_refused((text), strlen(text), part)

/* The address of the frame at `depth` (0 is the leaf) of the stack of a sample. */
static inline uint64_t address_at(
	const struct profile *profile, const struct profile_sample *sample, size_t depth)
{
	const struct profile_stack *const stack = &profile->stacks[sample->stack];

	assert_true(depth < stack->depth);
	return profile->locations[profile->stack_locations[stack->first + depth]].address;
}

/* Numbers that a double holds exactly. */
#define assert_counters(have, n, s, N, S)                          \
	do {                                                       \
		assert_true((have)[PROFILE_INUSE_OBJECTS] == (n)); \
		assert_true((have)[PROFILE_INUSE_SPACE] == (s));   \
		assert_true((have)[PROFILE_ALLOC_OBJECTS] == (N)); \
		assert_true((have)[PROFILE_ALLOC_SPACE] == (S));   \
	} while (0)
