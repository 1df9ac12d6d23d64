/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_abbrev.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"

enum { MAX_INDIRECTIONS = 4 };

/* Sizes that depend on the encoding. */
enum {
	ADDRESS_BYTES = 0x100,
	OFFSET_BYTES,
	REFERENCE_BYTES, /* DWARF 2 took DW_FORM_ref_addr for an address */
};

/* Of the standard's forms; what is missing here is unknown, and DWARF_STEP_INDIRECT. */
static const struct dwarf_step standard_steps[] = {
	[DW_FORM_addr] = { DWARF_STEP_BYTES, ADDRESS_BYTES },
	[DW_FORM_block2] = { DWARF_STEP_BLOCK2, 0 },
	[DW_FORM_block4] = { DWARF_STEP_BLOCK4, 0 },
	[DW_FORM_data2] = { DWARF_STEP_BYTES, 2 },
	[DW_FORM_data4] = { DWARF_STEP_BYTES, 4 },
	[DW_FORM_data8] = { DWARF_STEP_BYTES, 8 },
	[DW_FORM_string] = { DWARF_STEP_STRING, 0 },
	[DW_FORM_block] = { DWARF_STEP_BLOCK_LEB128, 0 },
	[DW_FORM_block1] = { DWARF_STEP_BLOCK1, 0 },
	[DW_FORM_data1] = { DWARF_STEP_BYTES, 1 },
	[DW_FORM_flag] = { DWARF_STEP_BYTES, 1 },
	[DW_FORM_sdata] = { DWARF_STEP_LEB128, 0 },
	[DW_FORM_strp] = { DWARF_STEP_BYTES, OFFSET_BYTES },
	[DW_FORM_udata] = { DWARF_STEP_LEB128, 0 },
	[DW_FORM_ref_addr] = { DWARF_STEP_BYTES, REFERENCE_BYTES },
	[DW_FORM_ref1] = { DWARF_STEP_BYTES, 1 },
	[DW_FORM_ref2] = { DWARF_STEP_BYTES, 2 },
	[DW_FORM_ref4] = { DWARF_STEP_BYTES, 4 },
	[DW_FORM_ref8] = { DWARF_STEP_BYTES, 8 },
	[DW_FORM_ref_udata] = { DWARF_STEP_LEB128, 0 },
	[DW_FORM_sec_offset] = { DWARF_STEP_BYTES, OFFSET_BYTES },
	[DW_FORM_exprloc] = { DWARF_STEP_BLOCK_LEB128, 0 },
	[DW_FORM_flag_present] = { DWARF_STEP_BYTES, 0 },
	[DW_FORM_strx] = { DWARF_STEP_LEB128, 0 },
	[DW_FORM_addrx] = { DWARF_STEP_LEB128, 0 },
	[DW_FORM_ref_sup4] = { DWARF_STEP_BYTES, 4 },
	[DW_FORM_strp_sup] = { DWARF_STEP_BYTES, OFFSET_BYTES },
	[DW_FORM_data16] = { DWARF_STEP_BYTES, 16 },
	[DW_FORM_line_strp] = { DWARF_STEP_BYTES, OFFSET_BYTES },
	[DW_FORM_ref_sig8] = { DWARF_STEP_BYTES, 8 },
	[DW_FORM_implicit_const] = { DWARF_STEP_BYTES, 0 },
	[DW_FORM_loclistx] = { DWARF_STEP_LEB128, 0 },
	[DW_FORM_rnglistx] = { DWARF_STEP_LEB128, 0 },
	[DW_FORM_ref_sup8] = { DWARF_STEP_BYTES, 8 },
	[DW_FORM_strx1] = { DWARF_STEP_BYTES, 1 },
	[DW_FORM_strx2] = { DWARF_STEP_BYTES, 2 },
	[DW_FORM_strx3] = { DWARF_STEP_BYTES, 3 },
	[DW_FORM_strx4] = { DWARF_STEP_BYTES, 4 },
	[DW_FORM_addrx1] = { DWARF_STEP_BYTES, 1 },
	[DW_FORM_addrx2] = { DWARF_STEP_BYTES, 2 },
	[DW_FORM_addrx3] = { DWARF_STEP_BYTES, 3 },
	[DW_FORM_addrx4] = { DWARF_STEP_BYTES, 4 },
};

static struct dwarf_step extension_step(uint16_t form)
{
	switch (form) {
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		return (struct dwarf_step){ DWARF_STEP_LEB128, 0 };
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return (struct dwarf_step){ DWARF_STEP_BYTES, OFFSET_BYTES };
	case DW_FORM_LLVM_addrx_offset:
		return (struct dwarf_step){ DWARF_STEP_LEB128_U32, 0 };
	default:
		return (struct dwarf_step){ DWARF_STEP_INDIRECT, 0 };
	}
}

static inline struct dwarf_step form_step(uint16_t form, const struct dwarf_encoding *encoding)
{
	struct dwarf_step step = form < sizeof standard_steps / sizeof *standard_steps
					 ? standard_steps[form]
					 : extension_step(form);

	if (step.kind == DWARF_STEP_INDIRECT)
		step.size = form;
	else if (step.size == ADDRESS_BYTES ||
		 (step.size == REFERENCE_BYTES && encoding->version <= 2))
		step.size = encoding->address_bytes;
	else if (step.size > ADDRESS_BYTES)
		step.size = encoding->offset_bytes;
	return step;
}

static uint16_t take_form(struct cursor *in)
{
	uint16_t form = DW_FORM_indirect;

	for (int i = 0; form == DW_FORM_indirect && i < MAX_INDIRECTIONS; i++) {
		const uint64_t next = cursor_uleb(in);
		form = next > UINT16_MAX ? 0 : (uint16_t)next;
	}
	return form;
}

static void take_indirect(struct cursor *in, uint16_t form, const struct dwarf_encoding *encoding)
{
	if (form == DW_FORM_indirect)
		form = take_form(in);
	const struct dwarf_step step = form_step(form, encoding);
	if (step.kind == DWARF_STEP_INDIRECT)
		cursor_fail(in, "an attribute of unknown form");
	else
		(void)dwarf_take_steps(in, &step, 1, encoding);
}

static inline uint64_t take_sibling(struct cursor *in, unsigned size)
{
	switch (size) {
	case 1:
		return cursor_u8(in);
	case 2:
		return cursor_u16(in);
	case 4:
		return cursor_u32(in);
	case 8:
		return cursor_u64(in);
	default:
		return cursor_uleb(in);
	}
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
	case DWARF_STEP_LEB128_U32:
		(void)cursor_uleb(in);
		cursor_skip(in, 4);
		break;
	case DWARF_STEP_STRING:
		cursor_skip_string(in);
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
		*sibling = take_sibling(in, step->size);
		break;
	case DWARF_STEP_INDIRECT: {
		struct cursor copy = *in;
		take_indirect(&copy, step->size, encoding);
		*in = copy;
		break;
	}
	}
}

uint64_t dwarf_take_steps(struct cursor *in, const struct dwarf_step *steps, unsigned count,
	const struct dwarf_encoding *encoding)
{
	struct cursor local = *in;
	uint64_t sibling = 0;

	for (unsigned i = 0; i < count; i++)
		take_step(&local, &steps[i], encoding, &sibling);
	*in = local;
	return sibling;
}

static uint64_t take_u24(struct cursor *in)
{
	const uint64_t low = cursor_u16(in);

	return low | (uint64_t)cursor_u8(in) << 16;
}

static uint64_t take_sized(struct cursor *in, unsigned bytes)
{
	switch (bytes) {
	case 1:
		return cursor_u8(in);
	case 2:
		return cursor_u16(in);
	case 3:
		return take_u24(in);
	case 4:
		return cursor_u32(in);
	case 8:
		return cursor_u64(in);
	default:
		cursor_skip(in, bytes);
		return 0;
	}
}

struct dwarf_value dwarf_value_read(
	struct cursor *in, uint16_t form, int64_t implicit, const struct dwarf_encoding *encoding)
{
	struct dwarf_value value = { .form = form == DW_FORM_indirect ? take_form(in) : form };
	const struct dwarf_step step = form_step(value.form, encoding);

	switch ((enum dwarf_step_kind)step.kind) {
	case DWARF_STEP_BYTES:
		if (step.size != 0)
			value.number = take_sized(in, step.size);
		else /* DW_FORM_implicit_const, DW_FORM_flag_present */
			value.number =
				value.form == DW_FORM_implicit_const ? (uint64_t)implicit : 1;
		break;
	case DWARF_STEP_LEB128:
		value.number =
			value.form == DW_FORM_sdata ? (uint64_t)cursor_sleb(in) : cursor_uleb(in);
		break;
	case DWARF_STEP_LEB128_U32:
		/* An index, and what is added to the address there. */
		value.number = cursor_uleb(in);
		value.number = value.number > UINT32_MAX ? UINT64_MAX
							 : value.number << 32 | cursor_u32(in);
		break;
	case DWARF_STEP_STRING:
		value.text = cursor_string(in);
		break;
	case DWARF_STEP_BLOCK_LEB128:
		value.number = cursor_uleb(in);
		value.text = (const char *)cursor_take(in, value.number);
		break;
	case DWARF_STEP_BLOCK1:
	case DWARF_STEP_BLOCK2:
	case DWARF_STEP_BLOCK4:
	case DWARF_STEP_INDIRECT:
	case DWARF_STEP_SIBLING:
	default:
		(void)dwarf_take_steps(in, &step, 1, encoding);
		break;
	}
	return value;
}

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
	bool refers_outside;
};

static inline struct dwarf_step step_of(const struct abbrev_reader *reading, uint16_t form)
{
	return form < COMMON_FORMS ? reading->form_steps[form] : form_step(form, reading->encoding);
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

/* Whether the values of such a DIE are read: a unit's root, code, or a part of names. */
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

/* Notes an attribute that the scan needs; `step` becomes one to a sibling if the attribute is one.
 */
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

/* Whether such an attribute may need more than its own unit and the sections of its file. */
static bool is_outside(uint64_t name, uint64_t form)
{
	switch (form) {
	case DW_FORM_ref_addr:
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_indirect: /* the DIE names the form */
		return true;
	default:
		return name == DW_AT_dwo_name || name == DW_AT_GNU_dwo_name;
	}
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
		reading->refers_outside = reading->refers_outside || is_outside(name, form);
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
	*table = (struct dwarf_abbrevs){ abbrevs, attributes, steps, reading->count, true, false };
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
		reading.form_steps[form] = form_step((uint16_t)form, encoding);
	while ((last_code == 0 || last_code != only) && read_abbrev(&reading, &abbrev)) {
		add_abbrev(&reading, &abbrev);
		is_sorted = is_sorted && abbrev.code > last_code;
		is_dense = is_dense && abbrev.code == reading.count;
		last_code = abbrev.code;
	}
	*in = reading.in;
	struct dwarf_abbrevs *const table = make_table(&reading);
	table->is_dense = is_dense;
	table->refers_outside = reading.refers_outside;
	free(reading.abbrevs);
	free(reading.attributes);
	free(reading.steps);
	if (!is_sorted)
		qsort(table->abbrevs, table->count, sizeof *table->abbrevs, compare_codes);
	return table;
}

bool dwarf_abbrevs_refer_outside(struct cursor in)
{
	while (cursor_ok(&in) && cursor_left(&in) != 0) {
		if (cursor_uleb(&in) == 0) /* the end of a table */
			continue;
		(void)cursor_uleb(&in); /* tag */
		cursor_skip(&in, 1);	/* whether it has children */
		for (uint64_t name = 1, form = 1; cursor_ok(&in) && (name != 0 || form != 0);) {
			name = cursor_uleb(&in);
			form = cursor_uleb(&in);
			if (is_outside(name, form))
				return true;
			if (form == DW_FORM_implicit_const)
				(void)cursor_sleb(&in);
		}
	}
	return false;
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
