/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the text formats of heap profilers have in common: stacks as lists of addresses, four
 * counters as "28: 1500 [30: 1600]", and lines that a reader does not know.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "profile/profile.h"

/*
 * The same few thousand addresses make up millions of frames. They are looked up in a table of
 * their own, open addressing and at most half full, whose slots hold the key: profile's index of
 * locations, which serves all formats, would need a second memory access and a call for each.
 */
struct address_slot {
	uint64_t address;
	uint32_t location; /* PROFILE_NONE where free */
};

struct address_table {
	struct address_slot *slots;
	uint64_t factor; /* odd and random: nobody can choose addresses that collide */
	unsigned bits;	 /* of the number of slots */
	size_t used;
};

struct text_profile {
	struct cursor *in;
	struct profile *profile;
	struct address_table addresses;
	uint64_t *stack_addresses; /* of the stack that is being read */
	uint32_t *stack_locations; /* the same as locations */
	size_t depth_capacity;	   /* of both */
	size_t depth;
	uint64_t prepared; /* see profile_prepare_stack */
	unsigned unknown_lines;
};

void text_profile_init(struct text_profile *text, struct cursor *in, struct profile *profile);
void text_profile_deinit(struct text_profile *text);

/*
 * Reads " 0x1 0x2" up to the end of the line, but not the newline: the stack, which may be empty.
 * PROFILE_NONE when it fails.
 */
uint32_t text_profile_stack(struct text_profile *text);

/*
 * The same in two steps, between which the memory for the second is fetched: what stands behind
 * the stack is best read there. The second must not follow a failure of the first.
 */
void text_profile_read_stack(struct text_profile *text);
uint32_t text_profile_add_stack(struct text_profile *text);

/* Reads "28: 1500 [30: 1600]" and blanks behind it. False when it fails. */
bool text_profile_counters(struct text_profile *text, double counters[PROFILE_COUNTERS]);

/* Steps over blanks, `c` and blanks; fails with `problem` when something else is there. */
bool text_profile_expect(struct text_profile *text, char c, const char *problem);

/* Keeps the line as a comment of the profile, if it is among the first of its kind. */
void text_profile_unknown_line(struct text_profile *text);
