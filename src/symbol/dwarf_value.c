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

/* The address at an index of the unit's part of .debug_addr. */
static bool indexed_address(struct dwarf_unit *unit, uint64_t index, uint64_t *address)
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
			if (!indexed_address(unit, cursor_uleb(&in), &number))
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

static bool value_address(
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
		return indexed_address(unit, value->number, address);
	case DW_FORM_LLVM_addrx_offset:
		if (!indexed_address(unit, value->number >> 32, address))
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

enum { ENTRIES_AT_ONCE = 16 }; /* charged together; most lists are shorter */

/* Where a list begins in its section; false when the attribute says nothing that can be. */
static bool list_offset(struct dwarf_unit *unit, const struct dwarf_value *ranges, uint64_t *offset)
{
	const struct dwarf_root *const root = dwarf_unit_root(unit);
	const struct elf_bytes *const lists = &unit->dwarf->sections[DWARF_RNGLISTS];

	switch (ranges->form) {
	case DW_FORM_rnglistx: {
		const unsigned bytes = unit->encoding.offset_bytes;
		struct cursor in = cursor_over(lists->data, lists->size);
		uint64_t at = 0;
		if (__builtin_mul_overflow(ranges->number, (uint64_t)bytes, &at) ||
			__builtin_add_overflow(at, root->rnglists_base, &at))
			return false;
		cursor_seek(&in, at);
		const uint64_t relative = bytes == 8 ? cursor_u64(&in) : cursor_u32(&in);
		return cursor_ok(&in) &&
		       !__builtin_add_overflow(relative, root->rnglists_base, offset);
	}
	case DW_FORM_sec_offset:
	case DW_FORM_data4:
	case DW_FORM_data8:
		*offset = ranges->number;
		/* A DWARF 4 split unit's lists stay in the main file, from the skeleton's base. */
		if (unit->skeleton != NULL && unit->encoding.version < 5)
			return !__builtin_add_overflow(
				*offset, dwarf_unit_root(unit->skeleton)->ranges_base, offset);
		return true;
	default:
		return false;
	}
}

static void begin_list(struct dwarf_range_reader *reader, const struct dwarf_value *ranges)
{
	struct dwarf_unit *const unit = reader->unit;
	struct dwarf_unit *const holder = unit->skeleton != NULL ? unit->skeleton : unit;
	const bool is_new = unit->encoding.version >= 5;
	const struct dwarf *const dwarf = is_new ? unit->dwarf : holder->dwarf;
	const struct elf_bytes *const section =
		&dwarf->sections[is_new ? DWARF_RNGLISTS : DWARF_RANGES];
	uint64_t offset = 0;

	if (!list_offset(unit, ranges, &offset))
		return;
	reader->in = cursor_over(section->data, section->size);
	cursor_seek(&reader->in, offset);
	if (!value_address(holder, &dwarf_unit_root(holder)->low_pc, &reader->base))
		reader->base = 0;
	reader->has_list = true;
}

void dwarf_range_begin(struct dwarf_range_reader *reader, struct dwarf_unit *unit,
	const struct dwarf_value *low_pc, const struct dwarf_value *high_pc,
	const struct dwarf_value *ranges)
{
	*reader = (struct dwarf_range_reader){ .unit = unit };
	if (ranges->form != 0) {
		begin_list(reader, ranges);
		return;
	}
	if (high_pc->form == 0 || !value_address(unit, low_pc, &reader->single.start))
		return;
	/* A constant is a length. */
	if (!value_address(unit, high_pc, &reader->single.limit) &&
		__builtin_add_overflow(
			reader->single.start, high_pc->number, &reader->single.limit))
		return;
	reader->has_single = true;
}

static uint64_t take_address(struct dwarf_range_reader *reader)
{
	return reader->unit->encoding.address_bytes == 8 ? cursor_u64(&reader->in)
							 : cursor_u32(&reader->in);
}

static uint64_t take_indexed(struct dwarf_range_reader *reader)
{
	uint64_t address = 0;

	if (!indexed_address(reader->unit, cursor_uleb(&reader->in), &address))
		cursor_fail(&reader->in, "an address index outside .debug_addr");
	return address;
}

/* One entry of .debug_ranges. False at the end of the list. */
static bool take_old_entry(struct dwarf_range_reader *reader, struct dwarf_range *range)
{
	const uint64_t start = take_address(reader);
	const uint64_t limit = take_address(reader);
	const uint64_t base_mark =
		reader->unit->encoding.address_bytes == 8 ? UINT64_MAX : UINT32_MAX;

	if (start == 0 && limit == 0)
		return false;
	if (start == base_mark) {
		reader->base = limit;
		*range = (struct dwarf_range){ 0 };
		return true;
	}
	*range = (struct dwarf_range){ reader->base + start, reader->base + limit };
	return true;
}

/* One entry of .debug_rnglists; an empty range for an entry without one. False at the end. */
static bool take_new_entry(struct dwarf_range_reader *reader, struct dwarf_range *range)
{
	struct cursor *const in = &reader->in;

	*range = (struct dwarf_range){ 0 };
	switch (cursor_u8(in)) {
	case DW_RLE_base_addressx:
		reader->base = take_indexed(reader);
		return true;
	case DW_RLE_startx_endx:
		range->start = take_indexed(reader);
		range->limit = take_indexed(reader);
		return true;
	case DW_RLE_startx_length:
		range->start = take_indexed(reader);
		range->limit = range->start + cursor_uleb(in);
		return true;
	case DW_RLE_offset_pair:
		range->start = reader->base + cursor_uleb(in);
		range->limit = reader->base + cursor_uleb(in);
		return true;
	case DW_RLE_base_address:
		reader->base = take_address(reader);
		return true;
	case DW_RLE_start_end:
		range->start = take_address(reader);
		range->limit = take_address(reader);
		return true;
	case DW_RLE_start_length:
		range->start = take_address(reader);
		range->limit = range->start + cursor_uleb(in);
		return true;
	case DW_RLE_end_of_list:
		return false;
	default:
		cursor_fail(in, "an unknown entry");
		return false;
	}
}

/* The addresses of what the linker left out are 0 or close to the end of all addresses. */
static bool is_alive(const struct dwarf_range_reader *reader, const struct dwarf_range *range)
{
	const struct dwarf_unit *const unit =
		reader->unit->skeleton != NULL ? reader->unit->skeleton : reader->unit;

	return range->start < range->limit && range->start >= unit->dwarf->code_start &&
	       range->start < unit->dwarf->code_limit;
}

bool dwarf_range_next(struct dwarf_range_reader *reader, struct dwarf_range *range)
{
	if (reader->has_single) {
		reader->has_single = false;
		*range = reader->single;
		return is_alive(reader, range);
	}
	while (reader->has_list) {
		/* Lists are shared: it is not enough to pay at the end. */
		if (reader->entries++ % ENTRIES_AT_ONCE == 0 &&
			!dwarf_spend(reader->unit->dwarf, ENTRIES_AT_ONCE)) {
			reader->has_list = false;
			break;
		}
		const bool more = reader->unit->encoding.version >= 5
					  ? take_new_entry(reader, range)
					  : take_old_entry(reader, range);
		if (!more || !cursor_ok(&reader->in)) {
			if (!cursor_ok(&reader->in))
				dwarf_note_damage(reader->unit->dwarf,
					"a list of ranges that cannot be read");
			reader->has_list = false;
			break;
		}
		if (is_alive(reader, range))
			return true;
	}
	return false;
}
