/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory behind functions that `heapctl attach --method entry` has patched.
 *
 * Such a function begins with a jump to the replacement of sampler/entries.c, or to its slot in
 * this area, which jumps there, if the replacement is farther than 2 GiB. Behind that the slot
 * holds the instructions that the jump has overwritten and a jump to the rest, which is what the
 * replacement calls as the original. The area lies within 2 GiB of the functions.
 *
 * The agent maps it, readable and executable, and never writes to it: heapctl does, with all
 * threads stopped (inject/entry_patch.h). It begins with what heapctl has written, so that the
 * agent, and the heapctl that detaches, know it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define ENTRY_AREA_MAGIC UINT64_C(0x31617265746e6568)

enum {
	ENTRY_AREA_BYTES = 16384,
	ENTRY_JUMP_BYTES = 5,
	ENTRY_SLOT_BYTES = 64,
	ENTRY_SLOT_MOVED = 16, /* where the overwritten instructions are, in a slot */
	ENTRY_PATCHES_MAX = 128,
	ENTRY_NOTE_BYTES = 512,
};

struct entry_patch {
	uint64_t function;
	unsigned char before[ENTRY_JUMP_BYTES], after[ENTRY_JUMP_BYTES];
	uint8_t index;	  /* of ENTRY_LIST */
	uint8_t releases; /* blocks may leave here */
	uint32_t length;  /* bytes of the overwritten instructions */
};

struct entry_area {
	uint64_t magic;
	uint32_t bytes; /* of the area */
	uint32_t count;
	char where[256];	       /* the file of the functions */
	char missed[ENTRY_NOTE_BYTES]; /* functions that could not be patched, for people */
	struct entry_patch patches[ENTRY_PATCHES_MAX];
};

_Static_assert(sizeof(struct entry_area) + ENTRY_PATCHES_MAX * ENTRY_SLOT_BYTES <= ENTRY_AREA_BYTES,
	"all slots fit");

/*
 * Maps the area at a free place between the two addresses; one that is there already stays, for
 * threads may still be in it. ERROR_MEMORY.
 */
MUST_CHECK bool entry_area_map(uint64_t first, uint64_t limit, struct error *err);

/* 0: none. */
uintptr_t entry_area_address(void);

/* NULL: none, or heapctl has written nothing into it yet. */
const struct entry_area *entry_area_get(void);

/* How many functions jump into it now. */
size_t entry_area_count_patched(void);

/* Unmaps it. Only when no thread can be in it, or get there. */
void entry_area_unmap(void);
