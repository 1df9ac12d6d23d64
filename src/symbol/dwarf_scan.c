/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"
#include "symbol/dwarf_ranges.h"
#include "symbol/vaddrs.h"

enum {
	DEEPEST = 1024,		 /* nesting of DIEs; compilers reach a few dozen */
	LINKS_PER_ADDRESS = 256, /* inlined calls around one address, on average */
};

/* The attributes of a DIE that has addresses. */
struct code_attributes {
	struct dwarf_value low_pc;
	struct dwarf_value high_pc;
	struct dwarf_value ranges;
	uint64_t sibling; /* 0 when the DIE does not say */
};

/* The state of a pass. */
struct pass {
	struct dwarf_scan *scan;
	const struct dwarf_abbrevs *abbrevs;
	struct cursor in;
	bool is_thorough;	    /* looks into what is unlikely to hold code, too */
	uint32_t depth;		    /* of the DIE being read; the root has 0 */
	uint32_t open[DEEPEST + 1]; /* the code at each depth above, UINT32_MAX where it is none */
};

/* Reads a DIE with addresses; the cursor ends behind it. */
static void read_code(struct pass *pass, const struct dwarf_abbrev *abbrev, struct dwarf_code *code,
	struct code_attributes *attributes)
{
	const struct dwarf_encoding *const encoding = &pass->scan->unit->encoding;

	for (unsigned i = 0; i < abbrev->attribute_count; i++) {
		const struct dwarf_attribute *const attribute =
			&pass->abbrevs->attributes[abbrev->first_attribute + i];
		const struct dwarf_value value = dwarf_value_read(&pass->in, attribute, encoding);
		switch (attribute->name) {
		case DW_AT_low_pc:
			attributes->low_pc = value;
			break;
		case DW_AT_high_pc:
			attributes->high_pc = value;
			break;
		case DW_AT_ranges:
			attributes->ranges = value;
			break;
		case DW_AT_sibling:
			attributes->sibling = value.number;
			break;
		case DW_AT_abstract_origin:
			code->origin = value;
			break;
		case DW_AT_call_file:
			code->call_file = value.number;
			break;
		case DW_AT_call_line:
			code->call_line = value.number > UINT32_MAX ? 0 : (uint32_t)value.number;
			break;
		default:
			break;
		}
	}
}

/*
 * Whether code at the current depth may be put in front of an address' chain: the chain is empty,
 * or its innermost code is an ancestor. Otherwise two pieces of code claim the address, and the
 * first one keeps it.
 */
static bool extends_chain(const struct pass *pass, uint32_t link, bool is_inlined)
{
	const struct dwarf_scan *const scan = pass->scan;

	if (link == DWARF_NO_LINK)
		return true;
	const uint32_t code = scan->links[link].code;
	const uint32_t depth = scan->codes[code].depth;
	return is_inlined && depth < pass->depth && pass->open[depth] == code;
}

static bool add_link(struct pass *pass, size_t address, uint32_t code)
{
	struct dwarf_scan *const scan = pass->scan;

	if (scan->link_count / LINKS_PER_ADDRESS > scan->count) {
		cursor_fail(&pass->in, "more inlined calls than there can be");
		return false;
	}
	scan->links =
		xgrow(scan->links, &scan->link_capacity, scan->link_count + 1, sizeof *scan->links);
	scan->links[scan->link_count] = (struct dwarf_link){ code, scan->chains[address] };
	scan->chains[address] = (uint32_t)scan->link_count++;
	return true;
}

/*
 * Puts the code in front of the chains of all addresses that it holds. Sets `holds` when there is
 * one, also for a block, which has no link of its own.
 */
static void link_code(struct pass *pass, const struct dwarf_code *code, bool is_block,
	const struct code_attributes *attributes, bool *holds)
{
	struct dwarf_scan *const scan = pass->scan;
	const uint32_t position = (uint32_t)scan->code_count;
	struct dwarf_range_reader ranges;
	struct dwarf_range range;
	bool is_linked = false;

	dwarf_range_begin(&ranges, scan->unit, &attributes->low_pc, &attributes->high_pc,
		&attributes->ranges);
	while (dwarf_range_next(&ranges, &range)) {
		size_t i = vaddrs_lower_bound(scan->vaddrs, scan->count, range.start);
		for (; i < scan->count && scan->vaddrs[i] < range.limit; i++) {
			*holds = true;
			if (is_block)
				break;
			if (!extends_chain(pass, scan->chains[i], code->is_inlined))
				continue;
			if (!is_linked) {
				scan->codes = xgrow(scan->codes, &scan->code_capacity,
					scan->code_count + 1, sizeof *scan->codes);
				scan->codes[scan->code_count++] = *code;
				is_linked = true;
			}
			if (!add_link(pass, i, position))
				return;
		}
	}
	pass->open[pass->depth] = is_linked ? position : UINT32_MAX;
}

/* Jumps to a sibling; only forward: a damaged file could lead back for ever. */
static bool seek_sibling(struct pass *pass, uint64_t sibling)
{
	const struct dwarf_unit *const unit = pass->scan->unit;
	uint64_t to = 0;

	if (__builtin_add_overflow(sibling, unit->offset, &to) || to <= cursor_offset(&pass->in) ||
		to > unit->limit)
		return false;
	cursor_seek(&pass->in, to);
	return true;
}

/* Steps over the children of the DIE just read. */
static void step_over_children(struct pass *pass, uint64_t sibling)
{
	const struct dwarf_unit *const unit = pass->scan->unit;

	if (sibling != 0 && seek_sibling(pass, sibling))
		return;
	for (unsigned nesting = 1; nesting > 0 && cursor_left(&pass->in) > 0;) {
		const uint64_t code = cursor_uleb(&pass->in);
		if (code == 0) {
			nesting--;
			continue;
		}
		const struct dwarf_abbrev *const abbrev = dwarf_abbrevs_find(pass->abbrevs, code);
		if (abbrev == NULL) {
			cursor_fail(&pass->in, "an abbreviation that is not in the table");
			return;
		}
		sibling = 0;
		dwarf_step_over(&pass->in, pass->abbrevs, abbrev, &unit->encoding, &sibling);
		if (abbrev->has_children && !seek_sibling(pass, sibling))
			nesting++;
	}
}

/* Whether the DIE, by its two numbers at fixed places, holds none of the addresses. */
static bool is_elsewhere(const struct pass *pass, const struct dwarf_extent *extent)
{
	const struct dwarf_scan *const scan = pass->scan;
	const unsigned char *const at = pass->in.position;
	uint64_t start = 0;
	uint64_t size = 0;

	if (extent->size_bytes == 0 ||
		cursor_left(&pass->in) < (size_t)extent->size_at + extent->size_bytes)
		return false;
	memcpy(&start, at + extent->low_pc_at, sizeof start);
	memcpy(&size, at + extent->size_at, extent->size_bytes);
	start = le64toh(start);
	size = le64toh(size);
	const size_t i = vaddrs_lower_bound(scan->vaddrs, scan->count, start);
	return i == scan->count || scan->vaddrs[i] - start >= size;
}

/* Reads the DIE of some code; true when its children are to be read. */
static bool visit_code(struct pass *pass, const struct dwarf_abbrev *abbrev, uint64_t offset)
{
	struct code_attributes attributes = { 0 };
	struct dwarf_code code = {
		.offset = offset,
		.depth = pass->depth,
		.is_inlined = abbrev->tag == DW_TAG_inlined_subroutine,
	};
	const bool is_block = !code.is_inlined && abbrev->tag != DW_TAG_subprogram;
	bool holds = false;

	read_code(pass, abbrev, &code, &attributes);
	if (cursor_ok(&pass->in))
		link_code(pass, &code, is_block, &attributes, &holds);
	if (!abbrev->has_children)
		return false;
	if (holds || pass->is_thorough)
		return true;
	step_over_children(pass, attributes.sibling);
	return false;
}

/* Reads a DIE; true when its children are to be read. */
static bool visit(struct pass *pass, const struct dwarf_abbrev *abbrev, uint64_t offset)
{
	const struct dwarf_unit *const unit = pass->scan->unit;
	uint64_t sibling = 0;

	pass->open[pass->depth] = UINT32_MAX;
	if (abbrev->interest == DWARF_CODE && !is_elsewhere(pass, &abbrev->extent))
		return visit_code(pass, abbrev, offset);
	dwarf_step_over(&pass->in, pass->abbrevs, abbrev, &unit->encoding, &sibling);
	if (!abbrev->has_children)
		return false;
	if (abbrev->interest == DWARF_DESCEND || pass->is_thorough)
		return true;
	step_over_children(pass, sibling);
	return false;
}

static void run_pass(struct dwarf_scan *scan, bool is_thorough)
{
	struct dwarf_unit *const unit = scan->unit;
	struct pass pass = {
		.scan = scan,
		.abbrevs = dwarf_unit_abbrevs(unit),
		.in = dwarf_unit_cursor(unit, unit->first_die),
		.is_thorough = is_thorough,
	};

	while (cursor_left(&pass.in) > 0) {
		const uint64_t offset = cursor_offset(&pass.in);
		const uint64_t code = cursor_uleb(&pass.in);
		if (code == 0) {
			if (pass.depth <= 1)
				break;
			pass.depth--;
			continue;
		}
		const struct dwarf_abbrev *const abbrev = dwarf_abbrevs_find(pass.abbrevs, code);
		if (abbrev == NULL)
			break;
		if (visit(&pass, abbrev, offset))
			pass.depth++;
		if (pass.depth == 0 || pass.depth > DEEPEST)
			break;
	}
}

void dwarf_scan_init(struct dwarf_scan *scan, struct dwarf_unit *unit, const uint64_t *vaddrs,
	const bool *is_function, size_t count)
{
	*scan = (struct dwarf_scan){
		.unit = unit,
		.vaddrs = vaddrs,
		.count = count,
		.chains = xcalloc(count, sizeof *scan->chains),
		.link_count = 1,
	};
	scan->links = xgrow(scan->links, &scan->link_capacity, 1, sizeof *scan->links);
	scan->links[0] = (struct dwarf_link){ 0 };
	run_pass(scan, false);

	bool is_missing = false;
	for (size_t i = 0; i < count && !is_missing; i++)
		is_missing = is_function[i] && scan->chains[i] == DWARF_NO_LINK;
	if (is_missing)
		run_pass(scan, true);
}

void dwarf_scan_deinit(struct dwarf_scan *scan)
{
	free(scan->chains);
	free(scan->codes);
	free(scan->links);
	*scan = (struct dwarf_scan){ 0 };
}
