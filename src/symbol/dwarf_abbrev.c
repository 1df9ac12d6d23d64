/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_abbrev.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"

enum {
	MAX_ATTRIBUTES = 1024, /* of one abbreviation; compilers write up to 30 */
	FIRST_CAPACITY = 256,
	COMMON_FORMS = 0x30, /* those of the standard; GNU's have high numbers */
};

/* A table while it is read: lists that grow. */
struct abbrev_reader {
	struct cursor in;
	const struct dwarf_encoding *encoding;
	struct dwarf_step form_steps[COMMON_FORMS];
	struct dwarf_abbrev *abbrevs;
	struct dwarf_attribute *attributes;
	struct dwarf_step *steps;
	size_t count, capacity;
	size_t attribute_count, attribute_capacity;
	size_t step_count, step_capacity;
};

static inline struct dwarf_step step_of(const struct abbrev_reader *reading, uint16_t form)
{
	return form < COMMON_FORMS ? reading->form_steps[form]
				   : dwarf_form_step(form, reading->encoding);
}

static bool is_sibling_form(uint16_t form)
{
	return form == DW_FORM_ref1 || form == DW_FORM_ref2 || form == DW_FORM_ref4 ||
	       form == DW_FORM_ref8 || form == DW_FORM_ref_udata;
}

static void add_step(
	struct abbrev_reader *reading, struct dwarf_abbrev *abbrev, struct dwarf_step step)
{
	if (reading->step_count == reading->step_capacity)
		reading->steps = xgrow(reading->steps, &reading->step_capacity,
			reading->step_count + FIRST_CAPACITY, sizeof *reading->steps);
	reading->steps[reading->step_count++] = step;
	abbrev->step_count++;
}

static void add_attribute(struct abbrev_reader *reading, struct dwarf_abbrev *abbrev,
	const struct dwarf_attribute *attribute)
{
	if (reading->attribute_count == reading->attribute_capacity)
		reading->attributes = xgrow(reading->attributes, &reading->attribute_capacity,
			reading->attribute_count + FIRST_CAPACITY, sizeof *reading->attributes);
	reading->attributes[reading->attribute_count++] = *attribute;
	abbrev->attribute_count++;
}

static void add_abbrev(struct abbrev_reader *reading, const struct dwarf_abbrev *abbrev)
{
	if (reading->count == reading->capacity)
		reading->abbrevs = xgrow(reading->abbrevs, &reading->capacity,
			reading->count + FIRST_CAPACITY, sizeof *reading->abbrevs);
	reading->abbrevs[reading->count++] = *abbrev;
}

/* Whether the values of such a DIE are read: a unit's root, code, or what names are made of.
 */
static bool is_read(uint16_t tag)
{
	switch (tag) {
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_compile_unit:
	case DW_TAG_partial_unit:
	case DW_TAG_skeleton_unit:
	case DW_TAG_class_type:
	case DW_TAG_namespace:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		return true;
	default:
		return false;
	}
}

static enum dwarf_interest interest_of(const struct dwarf_abbrev *abbrev, bool has_addresses)
{
	switch (abbrev->tag) {
	case DW_TAG_subprogram:
		return has_addresses ? DWARF_CODE : DWARF_UNLIKELY;
	case DW_TAG_inlined_subroutine:
		return DWARF_CODE;
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

/* What the attributes read so far amount to. */
struct fixed_layout {
	uint16_t bytes; /* of fixed size since the last varying one; 1024 times 16 bytes fit */
	bool has_addresses;
	bool has_ranges;
	bool is_low_pc_fixed;
};

static bool is_length(uint16_t form, struct dwarf_step step)
{
	return step.kind == DWARF_STEP_BYTES && form != DW_FORM_addr && !is_index_form(form) &&
	       (step.size == 1 || step.size == 2 || step.size == 4 || step.size == 8);
}

/* Notes what the scan asks of an attribute; `step` is made one to a sibling where it is. */
static inline void note_attribute(struct fixed_layout *layout, struct dwarf_fixed *fixed,
	const struct dwarf_attribute *attribute, const struct dwarf_encoding *encoding,
	struct dwarf_step *step)
{
	switch (attribute->name) {
	case DW_AT_sibling:
		if (fixed->is_all && attribute->form == DW_FORM_ref4) {
			fixed->has_sibling = true;
			fixed->sibling_at = layout->bytes;
		} else if (is_sibling_form(attribute->form)) {
			step->kind = DWARF_STEP_SIBLING;
		}
		break;
	case DW_AT_low_pc:
		layout->has_addresses = true;
		if (fixed->is_all && attribute->form == DW_FORM_addr &&
			encoding->address_bytes == 8 && !layout->is_low_pc_fixed) {
			layout->is_low_pc_fixed = true;
			fixed->low_pc_at = layout->bytes;
		}
		break;
	case DW_AT_high_pc:
		if (fixed->is_all && layout->is_low_pc_fixed && is_length(attribute->form, *step)) {
			fixed->size_at = layout->bytes;
			fixed->size_bytes = (uint8_t)step->size;
		}
		break;
	case DW_AT_ranges:
		layout->has_addresses = layout->has_ranges = true;
		break;
	default:
		break;
	}
}

/* Ends a series of values of fixed size. */
static void end_fixed(
	struct abbrev_reader *reading, struct dwarf_abbrev *abbrev, struct fixed_layout *layout)
{
	if (abbrev->fixed.is_all)
		abbrev->fixed.bytes = layout->bytes;
	else if (layout->bytes != 0)
		add_step(reading, abbrev, (struct dwarf_step){ DWARF_STEP_BYTES, layout->bytes });
	layout->bytes = 0;
}

static bool read_attributes(struct abbrev_reader *reading, struct dwarf_abbrev *abbrev)
{
	struct cursor in = reading->in;
	struct fixed_layout layout = { 0 };
	const bool is_kept = is_read(abbrev->tag);

	abbrev->fixed.is_all = true;
	for (unsigned i = 0; i < MAX_ATTRIBUTES; i++) {
		const uint64_t name = cursor_uleb(&in);
		const uint64_t form = cursor_uleb(&in);
		if (name == 0 && form == 0) {
			end_fixed(reading, abbrev, &layout);
			/* The extent of a DIE with a list of ranges is that list. */
			if (layout.has_ranges)
				abbrev->fixed.size_bytes = 0;
			abbrev->interest = (uint8_t)interest_of(abbrev, layout.has_addresses);
			reading->in = in;
			return cursor_ok(&in);
		}
		const struct dwarf_attribute attribute = {
			.name = name > UINT16_MAX ? 0 : (uint16_t)name,
			.form = form > UINT16_MAX ? 0 : (uint16_t)form,
			.implicit = form == DW_FORM_implicit_const ? cursor_sleb(&in) : 0,
		};
		if (is_kept)
			add_attribute(reading, abbrev, &attribute);
		struct dwarf_step step = step_of(reading, attribute.form);
		note_attribute(&layout, &abbrev->fixed, &attribute, reading->encoding, &step);
		if (step.kind == DWARF_STEP_BYTES) {
			layout.bytes = (uint16_t)(layout.bytes + step.size);
			continue;
		}
		end_fixed(reading, abbrev, &layout);
		abbrev->fixed.is_all = false;
		add_step(reading, abbrev, step);
	}
	return false;
}

static int compare_codes(const void *a, const void *b)
{
	const uint32_t left = ((const struct dwarf_abbrev *)a)->code;
	const uint32_t right = ((const struct dwarf_abbrev *)b)->code;

	return left < right ? -1 : left > right;
}

/* Reads one abbreviation; false at the end, or where the damage begins. */
static bool read_abbrev(struct abbrev_reader *reading, struct dwarf_abbrev *abbrev)
{
	const uint64_t code = cursor_uleb(&reading->in);
	const uint64_t tag = code == 0 ? 0 : cursor_uleb(&reading->in);

	if (code == 0 || code > UINT32_MAX)
		return false;
	*abbrev = (struct dwarf_abbrev){
		.code = (uint32_t)code,
		.tag = tag > UINT16_MAX ? 0 : (uint16_t)tag,
		.has_children = cursor_u8(&reading->in) != 0,
		.first_attribute = (uint32_t)reading->attribute_count,
		.first_step = (uint32_t)reading->step_count,
	};
	return read_attributes(reading, abbrev);
}

static void copy_list(void *to, const void *from, size_t bytes)
{
	if (bytes != 0)
		memcpy(to, from, bytes);
}

/*
 * What was read, in one block of its own size: tables are kept, and memory that the lists had in
 * excess serves the next one.
 */
static struct dwarf_abbrevs *make_table(const struct abbrev_reader *reading)
{
	const size_t abbrev_bytes = reading->count * sizeof *reading->abbrevs;
	const size_t attribute_bytes = reading->attribute_count * sizeof *reading->attributes;
	const size_t step_bytes = reading->step_count * sizeof *reading->steps;
	struct dwarf_abbrevs *const table =
		xmalloc(sizeof *table + attribute_bytes + abbrev_bytes + step_bytes);
	struct dwarf_attribute *const attributes = (struct dwarf_attribute *)(table + 1);
	struct dwarf_abbrev *const abbrevs =
		(struct dwarf_abbrev *)(attributes + reading->attribute_count);
	struct dwarf_step *const steps = (struct dwarf_step *)(abbrevs + reading->count);

	copy_list(attributes, reading->attributes, attribute_bytes);
	copy_list(abbrevs, reading->abbrevs, abbrev_bytes);
	copy_list(steps, reading->steps, step_bytes);
	*table = (struct dwarf_abbrevs){ abbrevs, attributes, steps, reading->count, true };
	return table;
}

struct dwarf_abbrevs *dwarf_abbrevs_new(
	struct cursor *in, const struct dwarf_encoding *encoding, uint64_t only)
{
	struct abbrev_reader reading = { .in = *in, .encoding = encoding };
	struct dwarf_abbrev abbrev = { 0 };
	uint64_t last_code = 0;
	bool is_sorted = true;
	bool is_dense = true;

	for (int form = 0; form < COMMON_FORMS; form++)
		reading.form_steps[form] = dwarf_form_step((uint16_t)form, encoding);
	while ((last_code == 0 || last_code != only) && read_abbrev(&reading, &abbrev)) {
		add_abbrev(&reading, &abbrev);
		is_sorted = is_sorted && abbrev.code > last_code;
		is_dense = is_dense && abbrev.code == reading.count;
		last_code = abbrev.code;
	}
	*in = reading.in;
	struct dwarf_abbrevs *const table = make_table(&reading);
	table->is_dense = is_dense;
	free(reading.abbrevs);
	free(reading.attributes);
	free(reading.steps);
	if (!is_sorted)
		qsort(table->abbrevs, table->count, sizeof *table->abbrevs, compare_codes);
	return table;
}

void dwarf_abbrevs_free(struct dwarf_abbrevs *abbrevs)
{
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
