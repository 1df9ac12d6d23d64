/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_value.h"

#include "symbol/dwarf_constants.h"

/* A number of `bytes` at an offset of a section. */
static bool number_at(
	const struct elf_bytes *section, uint64_t offset, unsigned bytes, uint64_t *number)
{
	struct cursor in = cursor_over(section->data, section->size);

	cursor_seek(&in, offset);
	const uint64_t value = dwarf_take_offset(&in, bytes);
	if (!cursor_ok(&in))
		return false;
	*number = value;
	return true;
}

/* The offset of element `index` in a table at `base`; false when it overflows. */
static bool element_offset(uint64_t base, uint64_t index, unsigned bytes, uint64_t *offset)
{
	return !__builtin_mul_overflow(index, (uint64_t)bytes, offset) &&
	       !__builtin_add_overflow(*offset, base, offset);
}

static const char *indexed_text(struct dwarf_unit *unit, uint64_t index)
{
	const struct dwarf *const dwarf = unit->dwarf;
	const unsigned bytes = unit->encoding.offset_bytes;
	uint64_t at = 0;
	uint64_t offset = 0;

	if (!element_offset(dwarf_unit_root(unit)->str_offsets_base, index, bytes, &at) ||
		!number_at(&dwarf->sections[DWARF_STR_OFFSETS], at, bytes, &offset))
		return "";
	return elf_text_at(&dwarf->sections[DWARF_STR], offset);
}

const char *dwarf_value_text(struct dwarf_unit *unit, const struct dwarf_value *value)
{
	const struct dwarf *const dwarf = unit->dwarf;

	switch (value->form) {
	case DW_FORM_string:
		return value->text;
	case DW_FORM_strp:
		return elf_text_at(&dwarf->sections[DWARF_STR], value->number);
	case DW_FORM_line_strp:
		return elf_text_at(&dwarf->sections[DWARF_LINE_STR], value->number);
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		return indexed_text(unit, value->number);
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		if (dwarf->alternate == NULL)
			return "";
		return elf_text_at(&dwarf->alternate->sections[DWARF_STR], value->number);
	default:
		return "";
	}
}

bool dwarf_indexed_address(struct dwarf_unit *unit, uint64_t index, uint64_t *address)
{
	/* A split unit's addresses are where the linker could fill them in: in the main file. */
	struct dwarf_unit *const holder = unit->skeleton != NULL ? unit->skeleton : unit;
	const unsigned bytes = unit->encoding.address_bytes;
	uint64_t at = 0;

	return element_offset(dwarf_unit_root(holder)->addr_base, index, bytes, &at) &&
	       number_at(&holder->dwarf->sections[DWARF_ADDR], at, bytes, address);
}

/*
 * An address that is written as an expression: to add a number to an address that several share
 * (clang's -minimize-addr-in-v5=Expressions). False for any other one.
 */
static bool evaluate(struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *address)
{
	enum { MAX_DEPTH = 4 };
	struct cursor in = cursor_over(value->text, value->number);
	uint64_t stack[MAX_DEPTH] = { 0 };
	size_t depth = 0;
	bool has_address = false;

	while (cursor_left(&in) > 0) {
		const uint8_t operation = cursor_u8(&in);
		uint64_t number = 0;
		switch (operation) {
		case DW_OP_addr:
			number = dwarf_take_offset(&in, unit->encoding.address_bytes);
			has_address = true;
			break;
		case DW_OP_addrx:
		case DW_OP_GNU_addr_index:
			if (!dwarf_indexed_address(unit, cursor_uleb(&in), &number))
				return false;
			has_address = true;
			break;
		case DW_OP_const1u:
			number = cursor_u8(&in);
			break;
		case DW_OP_const2u:
			number = cursor_u16(&in);
			break;
		case DW_OP_const4u:
			number = cursor_u32(&in);
			break;
		case DW_OP_const8u:
			number = cursor_u64(&in);
			break;
		case DW_OP_constu:
			number = cursor_uleb(&in);
			break;
		case DW_OP_plus_uconst:
			if (depth == 0)
				return false;
			stack[depth - 1] += cursor_uleb(&in);
			continue;
		case DW_OP_plus:
			if (depth < 2)
				return false;
			depth--;
			stack[depth - 1] += stack[depth];
			continue;
		default:
			if (operation < DW_OP_lit0 || operation > DW_OP_lit31)
				return false;
			number = operation - DW_OP_lit0;
			break;
		}
		if (depth == MAX_DEPTH)
			return false;
		stack[depth++] = number;
	}
	*address = stack[0];
	return cursor_ok(&in) && depth == 1 && has_address;
}

bool dwarf_value_address(
	struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *address)
{
	switch (value->form) {
	case DW_FORM_addr:
		*address = value->number;
		return true;
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index:
		return dwarf_indexed_address(unit, value->number, address);
	case DW_FORM_LLVM_addrx_offset:
		if (!dwarf_indexed_address(unit, value->number >> 32, address))
			return false;
		*address += value->number & UINT32_MAX;
		return true;
	case DW_FORM_exprloc:
		return value->text != NULL && evaluate(unit, value, address);
	default:
		return false;
	}
}

bool dwarf_value_reference(struct dwarf_unit *unit, const struct dwarf_value *value,
	struct dwarf_unit **target, uint64_t *offset)
{
	struct dwarf_unit *found = NULL;
	uint64_t at = value->number;

	switch (value->form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		if (__builtin_add_overflow(at, unit->offset, &at) || at < unit->first_die ||
			at >= unit->limit)
			return false;
		found = unit;
		break;
	case DW_FORM_ref_addr:
		found = dwarf_unit_at(unit->dwarf, at);
		break;
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
	case DW_FORM_GNU_ref_alt:
		if (unit->dwarf->alternate != NULL)
			found = dwarf_unit_at(unit->dwarf->alternate, at);
		break;
	default:
		break;
	}
	if (found == NULL)
		return false;
	*target = found;
	*offset = at;
	return true;
}
