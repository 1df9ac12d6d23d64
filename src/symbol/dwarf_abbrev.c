/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_abbrev.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"

enum {
	MOST_ATTRIBUTES = 1024, /* of one abbreviation; compilers write up to 30 */
	MOST_INDIRECTIONS = 4,
	FIRST_CAPACITY = 32,
};

/* The step over a value of this form. */
static struct dwarf_step step_of_form(uint16_t form, const struct dwarf_encoding *encoding)
{
	const uint16_t offset_bytes = encoding->offset_bytes;

	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return (struct dwarf_step){ DWARF_STEP_BYTES, 0 };
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return (struct dwarf_step){ DWARF_STEP_BYTES, 1 };
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return (struct dwarf_step){ DWARF_STEP_BYTES, 2 };
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return (struct dwarf_step){ DWARF_STEP_BYTES, 3 };
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref_sup4:
		return (struct dwarf_step){ DWARF_STEP_BYTES, 4 };
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		return (struct dwarf_step){ DWARF_STEP_BYTES, 8 };
	case DW_FORM_data16:
		return (struct dwarf_step){ DWARF_STEP_BYTES, 16 };
	case DW_FORM_addr:
		return (struct dwarf_step){ DWARF_STEP_BYTES, encoding->address_bytes };
	case DW_FORM_ref_addr:
		/* DWARF 2 took it for an address. */
		return (struct dwarf_step){ DWARF_STEP_BYTES,
			encoding->version <= 2 ? encoding->address_bytes : offset_bytes };
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return (struct dwarf_step){ DWARF_STEP_BYTES, offset_bytes };
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		return (struct dwarf_step){ DWARF_STEP_LEB128, 0 };
	case DW_FORM_string:
		return (struct dwarf_step){ DWARF_STEP_STRING, 0 };
	case DW_FORM_block1:
		return (struct dwarf_step){ DWARF_STEP_BLOCK1, 0 };
	case DW_FORM_block2:
		return (struct dwarf_step){ DWARF_STEP_BLOCK2, 0 };
	case DW_FORM_block4:
		return (struct dwarf_step){ DWARF_STEP_BLOCK4, 0 };
	case DW_FORM_block:
	case DW_FORM_exprloc:
		return (struct dwarf_step){ DWARF_STEP_BLOCK_LEB128, 0 };
	default:
		/* Unknown forms too: their size is not known, so the step fails. */
		return (struct dwarf_step){ DWARF_STEP_INDIRECT, form };
	}
}

static void take_indirect(struct cursor *in, uint16_t form, const struct dwarf_encoding *encoding)
{
	for (int i = 0; form == DW_FORM_indirect && i < MOST_INDIRECTIONS; i++) {
		const uint64_t next = cursor_uleb(in);
		form = next > UINT16_MAX ? 0 : (uint16_t)next;
	}
	const struct dwarf_step step = step_of_form(form, encoding);
	if (step.kind == DWARF_STEP_INDIRECT)
		cursor_fail(in, "an attribute of unknown form");
	else
		dwarf_step_over_form(in, form, encoding);
}

static inline void take_step(struct cursor *in, const struct dwarf_step *step,
	const struct dwarf_encoding *encoding, uint64_t *sibling)
{
	switch ((enum dwarf_step_kind)step->kind) {
	case DWARF_STEP_BYTES:
		cursor_skip(in, step->size);
		break;
	case DWARF_STEP_LEB128:
		(void)cursor_uleb(in);
		break;
	case DWARF_STEP_STRING:
		(void)cursor_string(in);
		break;
	case DWARF_STEP_BLOCK1:
		cursor_skip(in, cursor_u8(in));
		break;
	case DWARF_STEP_BLOCK2:
		cursor_skip(in, cursor_u16(in));
		break;
	case DWARF_STEP_BLOCK4:
		cursor_skip(in, cursor_u32(in));
		break;
	case DWARF_STEP_BLOCK_LEB128:
		cursor_skip(in, cursor_uleb(in));
		break;
	case DWARF_STEP_SIBLING:
		*sibling = step->size == 4   ? cursor_u32(in)
			   : step->size == 2 ? cursor_u16(in)
			   : step->size == 1 ? cursor_u8(in)
			   : step->size == 8 ? cursor_u64(in)
					     : cursor_uleb(in);
		break;
	case DWARF_STEP_INDIRECT:
		take_indirect(in, step->size, encoding);
		break;
	}
}

void dwarf_step_over_form(struct cursor *in, uint16_t form, const struct dwarf_encoding *encoding)
{
	const struct dwarf_step step = step_of_form(form, encoding);
	uint64_t sibling = 0;

	take_step(in, &step, encoding, &sibling);
}

void dwarf_step_over(struct cursor *in, const struct dwarf_abbrevs *abbrevs,
	const struct dwarf_abbrev *abbrev, const struct dwarf_encoding *encoding, uint64_t *sibling)
{
	for (unsigned i = 0; i < abbrev->step_count; i++)
		take_step(in, &abbrevs->steps[abbrev->first_step + i], encoding, sibling);
}

static bool is_sibling_form(uint16_t form)
{
	return form == DW_FORM_ref1 || form == DW_FORM_ref2 || form == DW_FORM_ref4 ||
	       form == DW_FORM_ref8 || form == DW_FORM_ref_udata;
}

/* Appends the step over an attribute, joined with the one before where possible. */
static void compile_step(struct dwarf_abbrevs *abbrevs, struct dwarf_abbrev *abbrev,
	const struct dwarf_attribute *attribute, const struct dwarf_encoding *encoding)
{
	struct dwarf_step step = step_of_form(attribute->form, encoding);

	if (attribute->name == DW_AT_sibling && is_sibling_form(attribute->form))
		step.kind = DWARF_STEP_SIBLING;
	if (step.kind == DWARF_STEP_BYTES && step.size == 0)
		return;
	if (step.kind == DWARF_STEP_BYTES && abbrev->step_count > 0) {
		struct dwarf_step *const last = &abbrevs->steps[abbrevs->step_count - 1];
		if (last->kind == DWARF_STEP_BYTES) {
			/* 1024 attributes of 16 bytes fit. */
			last->size = (uint16_t)(last->size + step.size);
			return;
		}
	}
	if (abbrevs->step_count == abbrevs->step_capacity)
		abbrevs->steps = xgrow(abbrevs->steps, &abbrevs->step_capacity,
			abbrevs->step_count + FIRST_CAPACITY, sizeof *abbrevs->steps);
	abbrevs->steps[abbrevs->step_count++] = step;
	abbrev->step_count++;
}

static enum dwarf_interest interest_of(const struct dwarf_abbrev *abbrev, bool has_addresses)
{
	switch (abbrev->tag) {
	case DW_TAG_subprogram:
		return has_addresses ? DWARF_CODE : DWARF_UNLIKELY;
	case DW_TAG_inlined_subroutine:
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
		return has_addresses ? DWARF_CODE : DWARF_DESCEND;
	case DW_TAG_compile_unit:
	case DW_TAG_partial_unit:
	case DW_TAG_skeleton_unit:
	case DW_TAG_namespace:
	case DW_TAG_module:
		return DWARF_DESCEND;
	default:
		return abbrev->has_children ? DWARF_UNLIKELY : DWARF_SKIP;
	}
}

static bool is_index_form(uint16_t form)
{
	return form == DW_FORM_addrx1 || form == DW_FORM_addrx2 || form == DW_FORM_addrx4;
}

/* Follows the fixed part of a DIE for dwarf_extent. */
struct fixed_part {
	size_t size;
	bool is_over;
	bool has_low_pc;
};

static void note_extent(struct dwarf_abbrev *abbrev, const struct dwarf_attribute *attribute,
	const struct dwarf_encoding *encoding, struct fixed_part *part)
{
	const struct dwarf_step step = step_of_form(attribute->form, encoding);

	if (attribute->name == DW_AT_ranges) {
		abbrev->extent.size_bytes = 0;
		part->is_over = true;
	}
	if (part->is_over || step.kind != DWARF_STEP_BYTES ||
		attribute->form == DW_FORM_implicit_const) {
		part->is_over = part->is_over || step.kind != DWARF_STEP_BYTES;
		return;
	}
	if (attribute->name == DW_AT_low_pc && attribute->form == DW_FORM_addr &&
		encoding->address_bytes == 8) {
		abbrev->extent.low_pc_at = (uint16_t)part->size;
		part->has_low_pc = true;
	} else if (attribute->name == DW_AT_high_pc && attribute->form != DW_FORM_addr &&
		   !is_index_form(attribute->form) && part->has_low_pc) {
		abbrev->extent.size_at = (uint16_t)part->size;
		abbrev->extent.size_bytes =
			step.size == 1 || step.size == 2 || step.size == 4 || step.size == 8
				? (uint8_t)step.size
				: 0;
	}
	part->size += step.size;
}

static bool read_attributes(struct cursor *in, struct dwarf_abbrevs *abbrevs,
	struct dwarf_abbrev *abbrev, const struct dwarf_encoding *encoding)
{
	bool has_addresses = false;
	struct fixed_part part = { 0 };

	for (;;) {
		const uint64_t name = cursor_uleb(in);
		const uint64_t form = cursor_uleb(in);
		if (!cursor_ok(in))
			return false;
		if (name == 0 && form == 0)
			break;
		const struct dwarf_attribute attribute = {
			.name = name > UINT16_MAX ? 0 : (uint16_t)name,
			.form = form > UINT16_MAX ? 0 : (uint16_t)form,
			.implicit = form == DW_FORM_implicit_const ? cursor_sleb(in) : 0,
		};
		if (abbrev->attribute_count == MOST_ATTRIBUTES) {
			cursor_fail(in, "an abbreviation with too many attributes");
			return false;
		}
		if (abbrevs->attribute_count == abbrevs->attribute_capacity)
			abbrevs->attributes =
				xgrow(abbrevs->attributes, &abbrevs->attribute_capacity,
					abbrevs->attribute_count + FIRST_CAPACITY,
					sizeof *abbrevs->attributes);
		abbrevs->attributes[abbrevs->attribute_count++] = attribute;
		abbrev->attribute_count++;
		compile_step(abbrevs, abbrev, &attribute, encoding);
		note_extent(abbrev, &attribute, encoding, &part);
		if (attribute.name == DW_AT_low_pc || attribute.name == DW_AT_ranges)
			has_addresses = true;
	}
	abbrev->interest = (uint8_t)interest_of(abbrev, has_addresses);
	return true;
}

static int compare_codes(const void *a, const void *b)
{
	const uint64_t left = ((const struct dwarf_abbrev *)a)->code;
	const uint64_t right = ((const struct dwarf_abbrev *)b)->code;

	return left < right ? -1 : left > right;
}

struct dwarf_abbrevs *dwarf_abbrevs_new(
	struct cursor *in, const struct dwarf_encoding *encoding, uint64_t only)
{
	struct dwarf_abbrevs *const abbrevs = xcalloc(1, sizeof *abbrevs);
	bool is_sorted = true;

	abbrevs->is_dense = true;
	while (cursor_left(in) > 0) {
		struct dwarf_abbrev abbrev = {
			.code = cursor_uleb(in),
			.first_attribute = (uint32_t)abbrevs->attribute_count,
			.first_step = (uint32_t)abbrevs->step_count,
		};
		if (abbrev.code == 0)
			break;
		const uint64_t tag = cursor_uleb(in);
		abbrev.tag = tag > UINT16_MAX ? 0 : (uint16_t)tag;
		abbrev.has_children = cursor_u8(in) != 0;
		if (!read_attributes(in, abbrevs, &abbrev, encoding))
			break;
		if (abbrevs->count > 0 && abbrevs->abbrevs[abbrevs->count - 1].code >= abbrev.code)
			is_sorted = false;
		abbrevs->abbrevs = xgrow(abbrevs->abbrevs, &abbrevs->capacity, abbrevs->count + 1,
			sizeof *abbrevs->abbrevs);
		abbrevs->abbrevs[abbrevs->count++] = abbrev;
		if (abbrev.code != abbrevs->count)
			abbrevs->is_dense = false;
		if (abbrev.code == only)
			break;
	}
	if (!is_sorted)
		qsort(abbrevs->abbrevs, abbrevs->count, sizeof *abbrevs->abbrevs, compare_codes);
	return abbrevs;
}

void dwarf_abbrevs_free(struct dwarf_abbrevs *abbrevs)
{
	if (abbrevs == NULL)
		return;
	free(abbrevs->abbrevs);
	free(abbrevs->attributes);
	free(abbrevs->steps);
	free(abbrevs);
}

const struct dwarf_abbrev *dwarf_abbrevs_search(const struct dwarf_abbrevs *abbrevs, uint64_t code)
{
	const struct dwarf_abbrev key = { .code = code };

	if (abbrevs->count == 0)
		return NULL;
	return bsearch(
		&key, abbrevs->abbrevs, abbrevs->count, sizeof *abbrevs->abbrevs, compare_codes);
}
