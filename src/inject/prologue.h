/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first instructions of a function, moved elsewhere so that a jump can take their place.
 *
 * What is moved are whole instructions, of at least ENTRY_JUMP_BYTES; operands that count from the
 * instruction's own address are changed so that they mean the same. Behind them a jump leads to the
 * rest of the function. A function for which that would not be the same is refused: it jumps back
 * into what is overwritten, calls another function there, or is shorter.
 *
 * The bytes are those of a file, and may be anything. x86-64 only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sampler/entry_area.h"

enum {
	PROLOGUE_MOVED_MAX = ENTRY_SLOT_BYTES - ENTRY_SLOT_MOVED,
	PROLOGUE_FUNCTION_MAX = 64 * 1024, /* bytes of a function that are read */
};

struct prologue {
	size_t length; /* of the instructions that are overwritten, wholly or in part */
	unsigned char moved[PROLOGUE_MOVED_MAX];
	size_t moved_bytes;
};

/*
 * `bytes` are all `size` of the function, which is at `address`; its first instructions are to be
 * at `to`. ERROR_UNSUPPORTED with the reason, as the end of "NAME ..."; so where Zydis is not
 * installed.
 */
MUST_CHECK bool prologue_move(struct prologue *prologue, const unsigned char *bytes, size_t size,
	uint64_t address, uint64_t to, struct error *err);

/* A jump; false when it is farther than 2 GiB. */
MUST_CHECK bool prologue_jump(unsigned char jump[ENTRY_JUMP_BYTES], uint64_t address, uint64_t to);
