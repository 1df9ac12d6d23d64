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
 * their own, open addressing, whose slots are as small as can be, so that it stays in the
 * processor's cache, and at most a quarter full: a second look is one that the processor did not
 * expect, which costs more than all the rest. profile's index of locations, which serves all
 * formats, takes several times as much.
 */
struct address_table {
	uint32_t *slots;     /* locations; PROFILE_NONE where free */
	uint64_t *addresses; /* of all locations */
	uint64_t factor;     /* odd and random: nobody can choose addresses that collide */
	unsigned shift;	     /* 64 less the bits of a slot's position */
	size_t count, capacity;
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

/* The profile has no locations yet, and gets them through this reader only. */
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
