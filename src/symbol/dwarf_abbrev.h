/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Abbreviation tables: how each kind of DIE of a unit is laid out (DWARF 5, section 7.5.3).
 *
 * A table is compiled when it is read: neighbouring attributes of fixed size become one step over
 * their sum, so that the many DIEs nobody asked about cost a few instructions each. A compiled
 * table is not changed any more: any thread may read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"

/* What the size of a value depends on besides its form. */
struct dwarf_encoding {
	uint8_t version;
	uint8_t address_bytes; /* 4 or 8 */
	uint8_t offset_bytes;  /* 8 in 64-bit DWARF, else 4 */
};

struct dwarf_attribute {
	uint16_t name;
	uint16_t form;
	int64_t implicit; /* the value of DW_FORM_implicit_const */
};

enum dwarf_step_kind {
	DWARF_STEP_BYTES, /* over `size` bytes */
	DWARF_STEP_LEB128,
	DWARF_STEP_STRING,
	DWARF_STEP_BLOCK1, /* over a block with a length of that many bytes */
	DWARF_STEP_BLOCK2,
	DWARF_STEP_BLOCK4,
	DWARF_STEP_BLOCK_LEB128,
	DWARF_STEP_INDIRECT,
	DWARF_STEP_SIBLING, /* a reference of `size` bytes to the DIE behind all children */
};

struct dwarf_step {
	uint16_t kind;
	uint16_t size;
};

/* What a scan does with a DIE. */
enum dwarf_interest {
	DWARF_SKIP,	/* nothing in it can be code */
	DWARF_DESCEND,	/* it may contain functions */
	DWARF_CODE,	/* a function, an inlined call or a block, with addresses */
	DWARF_UNLIKELY, /* a type or a function without addresses: code in it is rare */
};

/*
 * Where low_pc and a high_pc that is a length lie behind the abbreviation's code, when everything
 * before them has a fixed size. Nearly all code is like that, and most of it nobody asked about:
 * these two numbers are enough to see that.
 */
struct dwarf_extent {
	uint16_t low_pc_at;
	uint16_t size_at;
	uint8_t size_bytes; /* 1, 2, 4 or 8; 0 when the extent is not at a fixed place */
};

struct dwarf_abbrev {
	uint64_t code;
	uint32_t first_attribute;
	uint32_t first_step;
	uint16_t attribute_count;
	uint16_t step_count;
	uint16_t tag;
	struct dwarf_extent extent;
	uint8_t interest;
	bool has_children;
};

struct dwarf_abbrevs {
	struct dwarf_abbrev *abbrevs; /* sorted by code */
	struct dwarf_attribute *attributes;
	struct dwarf_step *steps;
	size_t count, capacity;
	size_t attribute_count, attribute_capacity;
	size_t step_count, step_capacity;
	bool is_dense; /* abbrevs[i].code == i + 1 */
};

/*
 * Reads the table at the cursor. With `only` it stops at the abbreviation of that code, which is
 * all that a unit's first DIE needs. A damaged table ends where the damage begins.
 */
struct dwarf_abbrevs *dwarf_abbrevs_new(
	struct cursor *in, const struct dwarf_encoding *encoding, uint64_t only);
void dwarf_abbrevs_free(struct dwarf_abbrevs *abbrevs);

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
 * Steps over the attributes of a DIE. `sibling` is set where the DIE says where its sibling is, as
 * an offset from the unit's start; else it stays as it was.
 */
void dwarf_step_over(struct cursor *in, const struct dwarf_abbrevs *abbrevs,
	const struct dwarf_abbrev *abbrev, const struct dwarf_encoding *encoding,
	uint64_t *sibling);

/* Steps over one value. */
void dwarf_step_over_form(struct cursor *in, uint16_t form, const struct dwarf_encoding *encoding);
