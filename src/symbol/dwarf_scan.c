/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"
#include "symbol/dwarf_value.h"

enum {
	MAX_DEPTH = 1024,	 /* nesting of DIEs; compilers reach a few dozen */
	LINKS_PER_ADDRESS = 256, /* inlined calls around one address, on average */
};

static const uint32_t NO_CODE = UINT32_MAX;
static const uint32_t NO_FUNCTION = UINT32_MAX;

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
	bool is_thorough;	 /* looks into what is unlikely to hold code, too */
	size_t missing;		 /* addresses that the pass is still looking for */
	uint32_t depth;		 /* of the DIE being read; the root has 0 */
	uint32_t function_depth; /* of the outermost function around it; NO_FUNCTION for none */
	bool is_old;		 /* DWARF 2, see is_in_pieces */
	uint64_t pending;	 /* work that was done and is still to be charged */
	uint32_t open[MAX_DEPTH + 1]; /* the code at each depth above, NO_CODE where it is none */
};

/*
 * Whether the call or the block may have more addresses than the DIE says: DWARF 2 has no ranges,
 * so gcc writes the first piece, or none. What is inlined into it has pieces of its own.
 */
static inline bool is_in_pieces(const struct pass *pass, const struct dwarf_abbrev *abbrev)
{
	return pass->scan->unit->encoding.version <= 2 && abbrev->tag != DW_TAG_subprogram;
}

/* Charges work. Ends the pass when the budget is spent. */
static inline bool charge(struct pass *pass, uint64_t work)
{
	if (__builtin_expect(
		    dwarf_spend_batched(pass->scan->unit->dwarf, &pass->pending, work), true))
		return true;
	cursor_fail(&pass->in, "more work than a file of this size needs");
	return false;
}

/* Reads a DIE with addresses; the cursor ends after it. */
static void read_code(struct pass *pass, const struct dwarf_abbrev *abbrev, struct dwarf_code *code,
	struct code_attributes *attributes)
{
	const struct dwarf_encoding *const encoding = &pass->scan->unit->encoding;

	for (unsigned i = 0; i < abbrev->attribute_count; i++) {
		const struct dwarf_attribute *const attribute =
			&pass->abbrevs->attributes[abbrev->first_attribute + i];
		const struct dwarf_value value =
			dwarf_value_read(&pass->in, attribute->form, attribute->implicit, encoding);
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

static uint32_t add_code(struct dwarf_scan *scan, const struct dwarf_code *code)
{
	scan->codes =
		xgrow(scan->codes, &scan->code_capacity, scan->code_count + 1, sizeof *scan->codes);
	scan->codes[scan->code_count] = *code;
	return (uint32_t)scan->code_count++;
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
	if (scan->chains[address] == DWARF_NO_LINK &&
		(!pass->is_thorough || scan->is_function[address]))
		pass->missing--;
	scan->links[scan->link_count] = (struct dwarf_link){ code, scan->chains[address] };
	scan->chains[address] = (uint32_t)scan->link_count++;
	return true;
}

/* The depth of the function around the DIE being read; NO_FUNCTION where it is not known. */
static uint32_t outer_function(const struct pass *pass)
{
	for (uint32_t depth = pass->depth; depth-- > 0;)
		if (pass->open[depth] != NO_CODE &&
			!pass->scan->codes[pass->open[depth]].is_inlined)
			return depth;
	return NO_FUNCTION;
}

/*
 * Such calls between the innermost code of an address and the DIE being read. For a call without
 * any code around it also the function: in DWARF 2 it has no address of its cold part either.
 */
static bool add_bare_links(struct pass *pass, size_t address, bool is_inlined)
{
	const struct dwarf_scan *const scan = pass->scan;
	const uint32_t link = scan->chains[address];
	uint32_t depth = NO_FUNCTION;

	if (link != DWARF_NO_LINK)
		depth = scan->codes[scan->links[link].code].depth + 1;
	else if (is_inlined && pass->is_old)
		depth = outer_function(pass);
	for (; depth < pass->depth; depth++) {
		const uint32_t code = pass->open[depth];
		if (code != NO_CODE && scan->codes[code].is_bare && !add_link(pass, address, code))
			return false;
	}
	return true;
}

/*
 * Puts the code in front of the chains of all addresses that it contains. Sets `holds` when there
 * is one, also for a block, which has no link of its own.
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
			if (!charge(pass, 1))
				return;
			if (is_block)
				break;
			if (!extends_chain(pass, scan->chains[i], code->is_inlined))
				continue;
			if (!is_linked)
				(void)add_code(scan, code);
			is_linked = true;
			if (!add_bare_links(pass, i, code->is_inlined) ||
				!add_link(pass, i, position))
				return;
		}
	}
	pass->open[pass->depth] = is_linked ? position : NO_CODE;
}

/* Jumps to a sibling; only forward, because a damaged file could loop. */
static inline bool seek_sibling(struct cursor *in, const struct dwarf_unit *unit, uint64_t sibling)
{
	const uint64_t here = cursor_offset(in) - unit->offset;

	if (sibling <= here || sibling - here > cursor_left(in))
		return false;
	in->position += sibling - here;
	return true;
}

/* Reads the code of a DIE, 0 at the end of siblings. False when there is no such abbreviation. */
static inline bool take_abbrev(
	struct cursor *in, const struct dwarf_abbrevs *abbrevs, const struct dwarf_abbrev **abbrev)
{
	const uint64_t code = cursor_uleb(in);

	*abbrev = code == 0 ? NULL : dwarf_abbrevs_find(abbrevs, code);
	return code == 0 || *abbrev != NULL;
}

static const char missing_abbrev[] = "an entry of .debug_info without its abbreviation";
static const char cut_entry[] = "an entry outside its unit in .debug_info";
static const char entries_behind[] = "entries behind the end of a unit in .debug_info";

/* Steps over the children of the DIE just read, whose sibling is not known. */
static void step_over_children(const struct pass *pass, struct cursor *cursor)
{
	const struct dwarf_unit *const unit = pass->scan->unit;
	const struct dwarf_abbrev *abbrev = NULL;
	struct cursor in = *cursor;

	for (unsigned nesting = 1; nesting > 0 && cursor_left(&in) > 0;) {
		if (!take_abbrev(&in, pass->abbrevs, &abbrev)) {
			dwarf_note_damage(unit->dwarf, missing_abbrev);
			cursor_fail(cursor, missing_abbrev);
			return;
		}
		if (abbrev == NULL) {
			nesting--;
			continue;
		}
		const uint64_t sibling =
			dwarf_step_over(&in, pass->abbrevs, abbrev, &unit->encoding);
		if (abbrev->has_children && !seek_sibling(&in, unit, sibling))
			nesting++;
	}
	*cursor = in;
}

/*
 * Whether the DIE at the cursor, by its two numbers at fixed offsets, contains none of the
 * addresses. False as well when that is not known.
 */
static inline bool is_elsewhere(
	const struct pass *pass, const struct cursor *in, const struct dwarf_fixed *fixed)
{
	const struct dwarf_scan *const scan = pass->scan;
	uint64_t start = 0;
	uint64_t size = 0;

	/* A size of less than eight bytes is cut out of eight, if the unit has as many. */
	if (fixed->size_bytes == 0 || cursor_left(in) < fixed->size_at + sizeof size)
		return false;
	memcpy(&start, in->position + fixed->low_pc_at, sizeof start);
	memcpy(&size, in->position + fixed->size_at, sizeof size);
	start = le64toh(start);
	size = le64toh(size) & UINT64_MAX >> (64 - 8 * fixed->size_bytes);
	const size_t i = vaddrs_lower_bound(scan->vaddrs, scan->count, start);
	return i == scan->count || scan->vaddrs[i] - start >= size;
}

/* Whether children of a DIE without addresses are to be read. */
static inline bool is_descended(const struct pass *pass, const struct dwarf_abbrev *abbrev)
{
	return abbrev->interest == DWARF_DESCEND || pass->is_thorough;
}

/* Comes back from children; false when the pass is over. */
static inline bool go_up(struct pass *pass)
{
	if (pass->depth <= 1)
		return false;
	pass->depth--;
	if (pass->depth != pass->function_depth)
		return true;
	pass->function_depth = NO_FUNCTION;
	return pass->missing > 0;
}

/*
 * Reads on to the next DIE of code that may contain one of the addresses; NULL when there is none.
 * The cursor ends at its attributes. The others, which nearly all of a unit are, cost a few
 * instructions each.
 */
static const struct dwarf_abbrev *find_code(struct pass *pass, uint64_t *offset)
{
	const struct dwarf_unit *const unit = pass->scan->unit;
	const struct dwarf_abbrev *abbrev = NULL;
	struct cursor in = pass->in;

	while (cursor_left(&in) > 0 && pass->depth <= MAX_DEPTH) {
		*offset = cursor_offset(&in);
		if (!take_abbrev(&in, pass->abbrevs, &abbrev)) {
			dwarf_note_damage(unit->dwarf, missing_abbrev);
			return NULL;
		}
		if (abbrev == NULL) {
			const bool is_root_over = pass->depth <= 1;
			if (go_up(pass))
				continue;
			if (is_root_over)
				dwarf_check_padding(unit->dwarf, &in, entries_behind);
			return NULL;
		}
		if (abbrev->interest == DWARF_CODE &&
			(!is_elsewhere(pass, &in, &abbrev->fixed) || is_in_pieces(pass, abbrev))) {
			pass->in = in;
			return abbrev;
		}
		const uint64_t sibling =
			dwarf_step_over(&in, pass->abbrevs, abbrev, &unit->encoding);
		if (!abbrev->has_children)
			continue;
		if (is_descended(pass, abbrev))
			pass->open[pass->depth++] = NO_CODE;
		else if (!seek_sibling(&in, unit, sibling)) {
			struct cursor copy = in;
			step_over_children(pass, &copy);
			in = copy;
		}
	}
	if (!cursor_ok(&in))
		dwarf_note_damage(unit->dwarf, cut_entry);
	return NULL;
}

/* Reads the DIE of some code, and goes down to its children if they are to be read. */
static void visit_code(struct pass *pass, const struct dwarf_abbrev *abbrev, uint64_t offset)
{
	struct code_attributes attributes = { 0 };
	struct dwarf_code code = {
		.offset = offset,
		.depth = pass->depth,
		.is_inlined = abbrev->tag == DW_TAG_inlined_subroutine,
	};
	const bool is_function = abbrev->tag == DW_TAG_subprogram;
	const bool is_block = !code.is_inlined && !is_function;
	bool holds = false;

	(void)charge(pass, abbrev->attribute_count);
	read_code(pass, abbrev, &code, &attributes);
	const bool has_addresses = attributes.low_pc.form != 0 || attributes.ranges.form != 0;
	code.is_bare = (code.is_inlined && (!has_addresses || is_in_pieces(pass, abbrev))) ||
		       (is_function && has_addresses && pass->is_old);
	pass->open[pass->depth] = NO_CODE;
	if (cursor_ok(&pass->in))
		link_code(pass, &code, is_block, &attributes, &holds);
	if (code.is_bare && pass->open[pass->depth] == NO_CODE)
		pass->open[pass->depth] = add_code(pass->scan, &code);
	if (!abbrev->has_children)
		return;
	if (holds || pass->is_thorough || (code.is_inlined && code.is_bare) ||
		is_in_pieces(pass, abbrev)) {
		if (holds && pass->function_depth == NO_FUNCTION)
			pass->function_depth = pass->depth;
		pass->depth++;
	} else if (!seek_sibling(&pass->in, pass->scan->unit, attributes.sibling)) {
		step_over_children(pass, &pass->in);
	}
}

/* A pass ends after the function in which the last address was found. */
static void run_pass(struct dwarf_scan *scan, bool is_thorough, size_t missing)
{
	struct dwarf_unit *const unit = scan->unit;
	const struct dwarf_abbrev *abbrev = NULL;
	uint64_t offset = 0;
	struct pass pass = {
		.scan = scan,
		.abbrevs = dwarf_unit_abbrevs(unit),
		.in = dwarf_unit_cursor(unit, unit->first_die),
		.is_thorough = is_thorough,
		.is_old = unit->encoding.version <= 2,
		.missing = missing,
		.function_depth = NO_FUNCTION,
	};

	while ((pass.missing > 0 || pass.function_depth != NO_FUNCTION) &&
		(abbrev = find_code(&pass, &offset)) != NULL)
		visit_code(&pass, abbrev, offset);
}

void dwarf_scan_init(struct dwarf_scan *scan, struct dwarf_unit *unit, const uint64_t *vaddrs,
	const bool *is_function, size_t count)
{
	*scan = (struct dwarf_scan){
		.unit = unit,
		.vaddrs = vaddrs,
		.is_function = is_function,
		.count = count,
		.chains = xcalloc(count, sizeof *scan->chains),
		.link_count = 1,
	};
	scan->links = xgrow(scan->links, &scan->link_capacity, 1, sizeof *scan->links);
	scan->links[0] = (struct dwarf_link){ 0 };
	run_pass(scan, false, count);

	size_t missing = 0;
	for (size_t i = 0; i < count; i++)
		missing += is_function[i] && scan->chains[i] == DWARF_NO_LINK;
	if (missing > 0)
		run_pass(scan, true, missing);
}

void dwarf_scan_deinit(struct dwarf_scan *scan)
{
	free(scan->chains);
	free(scan->codes);
	free(scan->links);
	*scan = (struct dwarf_scan){ 0 };
}

void dwarf_scan_boundaries(struct dwarf_unit *unit, struct boundaries *boundaries)
{
	struct dwarf_scan scan = { .unit = unit };
	const struct dwarf_abbrev *abbrev = NULL;
	uint64_t depth = 0;
	struct pass pass = {
		.scan = &scan,
		.abbrevs = dwarf_unit_abbrevs(unit),
		.in = dwarf_unit_cursor(unit, unit->first_die),
	};

	while (cursor_left(&pass.in) > 0) {
		struct code_attributes attributes = { 0 };
		struct dwarf_code code = { 0 };
		struct dwarf_range_reader ranges;
		struct dwarf_range range;
		if (!take_abbrev(&pass.in, pass.abbrevs, &abbrev)) {
			dwarf_note_damage(unit->dwarf, missing_abbrev);
			return;
		}
		if (abbrev == NULL) {
			if (depth > 0 && --depth == 0)
				dwarf_check_padding(unit->dwarf, &pass.in, entries_behind);
			continue;
		}
		depth += abbrev->has_children;
		if (abbrev->interest != DWARF_CODE) {
			(void)dwarf_step_over(&pass.in, pass.abbrevs, abbrev, &unit->encoding);
			continue;
		}
		if (!charge(&pass, abbrev->attribute_count))
			return;
		read_code(&pass, abbrev, &code, &attributes);
		dwarf_range_begin(
			&ranges, unit, &attributes.low_pc, &attributes.high_pc, &attributes.ranges);
		while (dwarf_range_next(&ranges, &range) && charge(&pass, BOUNDARY_WORK)) {
			boundaries_add(boundaries, range.start);
			boundaries_add(boundaries, range.limit);
		}
	}
	if (!cursor_ok(&pass.in))
		dwarf_note_damage(unit->dwarf, cut_entry);
}
