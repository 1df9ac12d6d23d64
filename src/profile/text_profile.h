/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the text formats of profilers have in common: stacks as lists of addresses, four counters as
 * "28: 1500 [30: 1600]", unknown lines, and the list of mapped files.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "profile/u64_table.h"
#include "profile/profile.h"
#include "profile/text.h"

struct text_profile {
	struct cursor *in;
	struct profile *profile;
	struct u64_table addresses; /* of all locations */
	uint64_t *stack_addresses;  /* of the stack that is being read */
	size_t depth, depth_capacity;
	uint64_t hash; /* of its addresses */
	unsigned unknown_lines;
};

/* The profile has no locations yet, and gets them through this reader only. */
void text_profile_init(struct text_profile *text, struct cursor *in, struct profile *profile);
void text_profile_deinit(struct text_profile *text);

/*
 * Reads " 0x1 0x2" up to the end of the line, but not the newline: the stack, which may be empty.
 * PROFILE_NONE when it fails.
 */
uint32_t text_profile_stack(struct text_profile *text);

/*
 * The same in two steps, between which the memory for the second is fetched: read what follows the
 * stack in between. The second must not follow a failure of the first.
 */
void text_profile_read_stack(struct text_profile *text);
uint32_t text_profile_add_stack(struct text_profile *text);

/* Reads "28: 1500 [30: 1600]" and the blanks after it. False when it fails. */
bool text_profile_counters(struct text_profile *text, double counters[PROFILE_COUNTERS]);

/* "28: 1500" for text_profile_counters_at. */
static inline const unsigned char *text_profile_pair_at(
	const unsigned char *at, double *objects, double *bytes)
{
	uint64_t number = 0;

	at = text_decimal_at(at, &number);
	*objects = (double)number;
	if (at == NULL || at[0] != ':' || at[1] != ' ')
		return NULL;
	at = text_decimal_at(at + 2, &number);
	*bytes = (double)number;
	return at;
}

enum { TEXT_COUNTERS_REACH = 4 * TEXT_NUMBER_REACH };

/*
 * The same in the form that profilers write, without blanks after it. Returns where it ends; NULL
 * for any other form. TEXT_COUNTERS_REACH bytes must be there. Inline, so that the counters stay in
 * registers: a store would be waited for.
 */
static inline const unsigned char *text_profile_counters_at(
	const unsigned char *at, double counters[PROFILE_COUNTERS])
{
	static const char nothing[] = " [0: 0]"; /* has been allocated: prof_accum is off */

	at = text_profile_pair_at(
		at, &counters[PROFILE_INUSE_OBJECTS], &counters[PROFILE_INUSE_SPACE]);
	counters[PROFILE_ALLOC_OBJECTS] = counters[PROFILE_ALLOC_SPACE] = 0;
	if (at == NULL || memcmp(at, nothing, sizeof nothing - 1) == 0)
		return at == NULL ? NULL : at + sizeof nothing - 1;
	if (at[0] != ' ' || at[1] != '[')
		return NULL;
	at = text_profile_pair_at(
		at + 2, &counters[PROFILE_ALLOC_OBJECTS], &counters[PROFILE_ALLOC_SPACE]);
	return at == NULL || *at != ']' ? NULL : at + 1;
}

/* Steps over blanks, `c` and blanks; fails with `problem` when something else is there. */
bool text_profile_expect(struct text_profile *text, char c, const char *problem);

/* Keeps the line as a comment of the profile, if it is among the first of its kind. */
void text_profile_unknown_line(struct text_profile *text);

/*
 * The list of mapped files at the end of a text profile: /proc/PID/maps as it was
 * ("MAPPED_LIBRARIES:", jemalloc and gperftools), or gperftools' own short form with its variable
 * ("build=/dir" and "$build/lib.so"). A line "#build-id START HEX" after a mapping and
 * a line "#process NAME" are our extensions. Like every reader of these formats, this one skips all
 * other lines.
 */

/* Whether the line at the cursor opens the list. */
bool map_section_at(const struct cursor *in);

/* Reads to the end of the input; sets the mappings, the program and the process' name. */
void map_section_read(struct cursor *in, struct profile *profile);

/* The same without an opening line. */
void map_section_read_lines(struct cursor *in, struct profile *profile);
