/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_form.h"

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

struct dwarf_step dwarf_form_step(uint16_t form, const struct dwarf_encoding *encoding)
{
	return form_step(form, encoding);
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
	if (form_step(form, encoding).kind == DWARF_STEP_INDIRECT)
		cursor_fail(in, "an attribute of unknown form");
	else
		dwarf_step_over_form(in, form, encoding);
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

void dwarf_step_over_form(struct cursor *in, uint16_t form, const struct dwarf_encoding *encoding)
{
	const struct dwarf_step step = form_step(form, encoding);

	(void)dwarf_take_steps(in, &step, 1, encoding);
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
