/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of DIEs: abbreviation tables (DWARF 5, section 7.5.3), and the values of each form,
 * how many bytes they take and how to read them (section 7.5.5).
 *
 * A table is compiled when it is read: neighbouring attributes of fixed size become one step over
 * their sum, so that the many DIEs that no address needs cost a few instructions each. Attributes
 * are kept only for the kinds of DIE that are read. A compiled table does not change: any thread
 * may read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"

/* What the size of a value depends on besides its form. */
struct dwarf_encoding {
	uint16_t version;
	uint8_t address_bytes; /* 4 or 8 */
	uint8_t offset_bytes;  /* 8 in 64-bit DWARF, else 4 */
};

enum dwarf_step_kind {
	DWARF_STEP_INDIRECT, /* the form, `size`, is in the DIE; or it is unknown, which fails */
	DWARF_STEP_BYTES,    /* over `size` bytes */
	DWARF_STEP_LEB128,
	DWARF_STEP_LEB128_U32, /* and four bytes after it */
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

/* Takes steps. Returns what DWARF_STEP_SIBLING refers to, 0 when it is not among them. */
uint64_t dwarf_take_steps(struct cursor *in, const struct dwarf_step *steps, unsigned count,
	const struct dwarf_encoding *encoding);

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

struct dwarf_attribute {
	uint16_t name;
	uint16_t form;
	int64_t implicit; /* the value of DW_FORM_implicit_const */
};

/* What a scan does with a DIE. */
enum dwarf_interest {
	DWARF_SKIP,	/* nothing in it can be code */
	DWARF_DESCEND,	/* it may contain functions */
	DWARF_CODE,	/* a function, an inlined call or a block, with addresses */
	DWARF_UNLIKELY, /* a type or a function without addresses: code in it is rare */
};

/*
 * The values at fixed offsets after the abbreviation's code. Nearly all DIEs are of fixed size, or
 * begin so, and most of them are not needed: these few numbers are enough to detect that and skip
 * them.
 */
struct dwarf_fixed {
	uint16_t low_pc_at;
	uint16_t size_at;    /* of a high_pc that is a length */
	uint16_t sibling_at; /* of a reference of four bytes */
	uint16_t bytes;	     /* in front of the first value whose size varies */
	uint8_t size_bytes;  /* 1, 2, 4 or 8; 0 when the DIE's extent is not at a fixed place */
	bool has_sibling;
	bool is_all; /* all values have fixed sizes */
};

struct dwarf_abbrev {
	uint32_t code;
	uint32_t first_attribute; /* kept only for the kinds of DIE that are read */
	uint32_t first_step;	  /* after the values at fixed offsets */
	uint16_t attribute_count;
	uint16_t step_count;
	uint16_t tag;
	uint8_t interest;
	bool has_children;
	struct dwarf_fixed fixed;
};

/* All in one block of memory. */
struct dwarf_abbrevs {
	struct dwarf_abbrev *abbrevs; /* sorted by code */
	struct dwarf_attribute *attributes;
	struct dwarf_step *steps;
	size_t count;
	bool is_dense;	     /* abbrevs[i].code == i + 1 */
	bool refers_outside; /* a DIE may refer to another unit, or to another file */
};

/*
 * Reads the table at the cursor, which ends where reading did. With `only` it stops at the
 * abbreviation of that code, which is all that a unit's first DIE needs. A damaged table ends where
 * the damage begins.
 */
struct dwarf_abbrevs *dwarf_abbrevs_new(
	struct cursor *in, const struct dwarf_encoding *encoding, uint64_t only);
void dwarf_abbrevs_free(struct dwarf_abbrevs *abbrevs);

/* Whether one of the tables from the cursor to its end refers outside, as above. */
bool dwarf_abbrevs_refer_outside(struct cursor in);

const struct dwarf_abbrev *dwarf_abbrevs_search(const struct dwarf_abbrevs *abbrevs, uint64_t code);

/* NULL when there is no such code. */
static inline const struct dwarf_abbrev *dwarf_abbrevs_find(
	const struct dwarf_abbrevs *abbrevs, uint64_t code)
{
	if (__builtin_expect(abbrevs->is_dense, true))
		return code - 1 < abbrevs->count ? &abbrevs->abbrevs[code - 1] : NULL;
	return dwarf_abbrevs_search(abbrevs, code);
}

/*
 * Steps over the attributes of a DIE. Returns where its sibling is, as an offset from the unit's
 * start; 0 when it does not.
 */
static inline uint64_t dwarf_step_over(struct cursor *in, const struct dwarf_abbrevs *abbrevs,
	const struct dwarf_abbrev *abbrev, const struct dwarf_encoding *encoding)
{
	const unsigned char *const at = cursor_take(in, abbrev->fixed.bytes);
	uint32_t sibling = 0;

	if (at != NULL && abbrev->fixed.has_sibling)
		memcpy(&sibling, at + abbrev->fixed.sibling_at, sizeof sibling);
	if (__builtin_expect(abbrev->fixed.is_all, true))
		return le32toh(sibling);
	struct cursor copy = *in;
	const uint64_t found = dwarf_take_steps(
		&copy, &abbrevs->steps[abbrev->first_step], abbrev->step_count, encoding);
	*in = copy;
	return found != 0 ? found : le32toh(sibling);
}
