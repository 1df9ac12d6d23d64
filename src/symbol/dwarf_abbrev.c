/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_abbrev.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"

enum {
	MOST_ATTRIBUTES = 1024, /* of one abbreviation; compilers write up to 30 */
	FIRST_CAPACITY = 256,
	COMMON_FORMS = 0x30, /* those of the standard; GNU's have high numbers */
};

/* A table while it is read. */
struct reading {
	struct dwarf_abbrevs *abbrevs;
	struct cursor in;
	const struct dwarf_encoding *encoding;
	struct dwarf_step steps[COMMON_FORMS];
};

static inline struct dwarf_step step_of(const struct reading *reading, uint16_t form)
{
	return form < COMMON_FORMS ? reading->steps[form]
				   : dwarf_form_step(form, reading->encoding);
}

static bool is_sibling_form(uint16_t form)
{
	return form == DW_FORM_ref1 || form == DW_FORM_ref2 || form == DW_FORM_ref4 ||
	       form == DW_FORM_ref8 || form == DW_FORM_ref_udata;
}

/* Appends a step, joined with the one before where possible. */
static inline void add_step(
	struct dwarf_abbrevs *abbrevs, struct dwarf_abbrev *abbrev, struct dwarf_step step)
{
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

/* Takes a further attribute into account. `has_low_pc` is set when its place is known. */
static inline void note_fixed(struct dwarf_fixed *fixed, const struct dwarf_attribute *attribute,
	struct dwarf_step step, const struct dwarf_encoding *encoding, bool *has_low_pc)
{
	const bool is_number = step.size == 1 || step.size == 2 || step.size == 4 || step.size == 8;

	if (!fixed->is_all)
		return;
	if (step.kind == DWARF_STEP_SIBLING && step.size == 4) {
		fixed->has_sibling = true;
		fixed->sibling_at = fixed->bytes;
	} else if (step.kind != DWARF_STEP_BYTES) {
		fixed->is_all = false;
		return;
	} else if (attribute->name == DW_AT_low_pc && attribute->form == DW_FORM_addr &&
		   encoding->address_bytes == 8 && !*has_low_pc) {
		*has_low_pc = true;
		fixed->low_pc_at = fixed->bytes;
	} else if (attribute->name == DW_AT_high_pc && *has_low_pc && is_number &&
		   attribute->form != DW_FORM_addr && !is_index_form(attribute->form)) {
		fixed->size_at = fixed->bytes;
		fixed->size_bytes = (uint8_t)step.size;
	}
	fixed->bytes = (uint16_t)(fixed->bytes + step.size);
}

static bool read_attributes(struct reading *reading, struct dwarf_abbrev *abbrev)
{
	struct dwarf_abbrevs *const abbrevs = reading->abbrevs;
	struct cursor in = reading->in;
	bool has_addresses = false;
	bool has_ranges = false;
	bool has_low_pc = false;

	abbrev->fixed.is_all = true;
	for (;;) {
		const uint64_t name = cursor_uleb(&in);
		const uint64_t form = cursor_uleb(&in);
		if (name == 0 && form == 0)
			break;
		const struct dwarf_attribute attribute = {
			.name = name > UINT16_MAX ? 0 : (uint16_t)name,
			.form = form > UINT16_MAX ? 0 : (uint16_t)form,
			.implicit = form == DW_FORM_implicit_const ? cursor_sleb(&in) : 0,
		};
		if (abbrev->attribute_count == MOST_ATTRIBUTES)
			return false;
		if (abbrevs->attribute_count == abbrevs->attribute_capacity)
			abbrevs->attributes =
				xgrow(abbrevs->attributes, &abbrevs->attribute_capacity,
					abbrevs->attribute_count + FIRST_CAPACITY,
					sizeof *abbrevs->attributes);
		abbrevs->attributes[abbrevs->attribute_count++] = attribute;
		abbrev->attribute_count++;
		struct dwarf_step step = step_of(reading, attribute.form);
		if (attribute.name == DW_AT_sibling && is_sibling_form(attribute.form))
			step.kind = DWARF_STEP_SIBLING;
		add_step(abbrevs, abbrev, step);
		note_fixed(&abbrev->fixed, &attribute, step, reading->encoding, &has_low_pc);
		has_ranges = has_ranges || attribute.name == DW_AT_ranges;
		has_addresses = has_addresses || attribute.name == DW_AT_low_pc;
	}
	/* The extent of a DIE with a list of ranges is that list. */
	if (has_ranges)
		abbrev->fixed.size_bytes = 0;
	abbrev->interest = (uint8_t)interest_of(abbrev, has_addresses || has_ranges);
	reading->in = in;
	return cursor_ok(&in);
}

static int compare_codes(const void *a, const void *b)
{
	const uint32_t left = ((const struct dwarf_abbrev *)a)->code;
	const uint32_t right = ((const struct dwarf_abbrev *)b)->code;

	return left < right ? -1 : left > right;
}

/* Reads one abbreviation; false at the end, or where the damage begins. */
static bool read_abbrev(struct reading *reading, struct dwarf_abbrev *abbrev)
{
	const uint64_t code = cursor_uleb(&reading->in);
	const uint64_t tag = code == 0 ? 0 : cursor_uleb(&reading->in);

	if (code == 0 || code > UINT32_MAX)
		return false;
	*abbrev = (struct dwarf_abbrev){
		.code = (uint32_t)code,
		.tag = tag > UINT16_MAX ? 0 : (uint16_t)tag,
		.has_children = cursor_u8(&reading->in) != 0,
		.first_attribute = (uint32_t)reading->abbrevs->attribute_count,
		.first_step = (uint32_t)reading->abbrevs->step_count,
	};
	return read_attributes(reading, abbrev);
}

struct dwarf_abbrevs *dwarf_abbrevs_new(
	const struct cursor *in, const struct dwarf_encoding *encoding, uint64_t only)
{
	struct dwarf_abbrevs *const abbrevs = xcalloc(1, sizeof *abbrevs);
	struct reading reading = { .abbrevs = abbrevs, .in = *in, .encoding = encoding };
	struct dwarf_abbrev abbrev;
	bool is_sorted = true;

	for (uint16_t form = 0; form < COMMON_FORMS; form++)
		reading.steps[form] = dwarf_form_step(form, encoding);
	abbrevs->is_dense = true;
	while (read_abbrev(&reading, &abbrev)) {
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
	const struct dwarf_abbrev key = { .code = (uint32_t)code };

	if (abbrevs->count == 0 || code > UINT32_MAX)
		return NULL;
	return bsearch(
		&key, abbrevs->abbrevs, abbrevs->count, sizeof *abbrevs->abbrevs, compare_codes);
}
