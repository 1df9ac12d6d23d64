/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_aranges.h"

bool dwarf_arange_set_next(struct cursor *in, struct dwarf_arange_set *set)
{
	if (cursor_left(in) == 0)
		return false;
	const size_t begin = cursor_offset(in);
	uint64_t length = cursor_u32(in);
	const bool is_wide = length == UINT32_MAX;

	if (is_wide)
		length = cursor_u64(in);
	if (!cursor_ok(in) || length > cursor_left(in))
		return false;
	set->pairs = *in;
	set->pairs.end = set->pairs.position + length;
	cursor_skip(in, length);
	cursor_skip(&set->pairs, 2); /* version */
	set->unit_offset = is_wide ? cursor_u64(&set->pairs) : cursor_u32(&set->pairs);
	set->address_bytes = cursor_u8(&set->pairs);
	cursor_skip(&set->pairs, 1); /* size of a segment selector */
	if (set->address_bytes != 8 && set->address_bytes != 4) {
		set->pairs.position = set->pairs.end;
		return true;
	}
	/* The pairs are aligned to their own size, counted from the set's beginning. */
	cursor_skip(
		&set->pairs, -(cursor_offset(&set->pairs) - begin) & (2u * set->address_bytes - 1));
	return true;
}

bool dwarf_arange_next(struct dwarf_arange_set *set, uint64_t *start, uint64_t *size)
{
	const bool is_wide = set->address_bytes == 8;

	if (cursor_left(&set->pairs) < 2u * set->address_bytes || cursor_left(&set->pairs) == 0)
		return false;
	*start = is_wide ? cursor_u64(&set->pairs) : cursor_u32(&set->pairs);
	*size = is_wide ? cursor_u64(&set->pairs) : cursor_u32(&set->pairs);
	return *start != 0 || *size != 0;
}
