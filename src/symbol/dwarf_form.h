/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of each form: how many bytes they take (DWARF 5, section 7.5.5), how to step over them
 * and how to read them.
 */
#pragma once

#include <stdint.h>

#include "base/cursor.h"

/* What the size of a value depends on besides its form. */
struct dwarf_encoding {
	uint8_t version;
	uint8_t address_bytes; /* 4 or 8 */
	uint8_t offset_bytes;  /* 8 in 64-bit DWARF, else 4 */
};

enum dwarf_step_kind {
	DWARF_STEP_INDIRECT, /* the form, `size`, is in the DIE; or it is unknown, which fails */
	DWARF_STEP_BYTES,    /* over `size` bytes */
	DWARF_STEP_LEB128,
	DWARF_STEP_LEB128_U32, /* and four bytes behind it */
	DWARF_STEP_STRING,
	DWARF_STEP_BLOCK1, /* over a block with a length of that many bytes */
	DWARF_STEP_BLOCK2,
	DWARF_STEP_BLOCK4,
	DWARF_STEP_BLOCK_LEB128,
	DWARF_STEP_SIBLING, /* a reference of `size` bytes (0: LEB128) to the next sibling */
};

struct dwarf_step {
	uint16_t kind;
	uint16_t size;
};

/* The step over a value of this form. */
struct dwarf_step dwarf_form_step(uint16_t form, const struct dwarf_encoding *encoding);

/* Takes steps. Returns what DWARF_STEP_SIBLING refers to, 0 when it is not among them. */
uint64_t dwarf_take_steps(struct cursor *in, const struct dwarf_step *steps, unsigned count,
	const struct dwarf_encoding *encoding);

/* Steps over one value. */
void dwarf_step_over_form(struct cursor *in, uint16_t form, const struct dwarf_encoding *encoding);

/* A value of an attribute; form 0 when the attribute is absent. */
struct dwarf_value {
	uint16_t form;
	uint64_t number;
	const char *text; /* of DW_FORM_string */
};

/* Reads a value; `implicit` is that of DW_FORM_implicit_const, which is in the abbreviation. */
struct dwarf_value dwarf_value_read(
	struct cursor *in, uint16_t form, int64_t implicit, const struct dwarf_encoding *encoding);

/* A number of 8 bytes, or else of 4. */
static inline uint64_t dwarf_take_offset(struct cursor *in, unsigned bytes)
{
	return bytes == 8 ? cursor_u64(in) : cursor_u32(in);
}
