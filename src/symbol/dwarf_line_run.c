/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_constants.h"
#include "symbol/dwarf_line.h"
#include "symbol/vaddrs.h"

enum { WORK_AT_ONCE = 256 }; /* that is charged together */

/* The registers of the machine that runs the program, as far as they are of interest. */
struct registers {
	uint64_t address;
	uint64_t file;
	uint64_t line;
};

/*
 * What a run has found. A row holds from its address to that of the next one. Most rows lie between
 * two of the addresses asked for, so a row costs one comparison with `ends_at`.
 */
struct line_run {
	const struct dwarf *dwarf;
	const uint64_t *vaddrs;
	size_t count;
	struct dwarf_row *rows;
	size_t missing; /* rows that are still to be found */

	struct registers last; /* the row before; none while is_moved */
	bool is_dead;	       /* the sequence is of code that the linker threw away */
	bool is_moved;	       /* the address was set, so `next` is to be searched */
	size_t next;	       /* first of vaddrs not below the last row */
	uint64_t unpaid;       /* work that is still to be charged */
	uint64_t ends_at;      /* a row below this neither ends nor begins one that is asked for */
};

/*
 * The row before holds up to `limit`. The first row that covers an address stays: what overlaps it
 * comes from discarded code.
 */
static void fill_rows(struct line_run *run, uint64_t limit)
{
	const size_t first = run->next;

	for (; run->next < run->count && run->vaddrs[run->next] < limit; run->next++) {
		struct dwarf_row *const row = &run->rows[run->next];
		if (row->has_row)
			continue;
		row->has_row = true;
		row->file = run->last.file;
		row->line = run->last.line > UINT32_MAX ? 0 : (uint32_t)run->last.line;
		run->missing--;
	}
	/* A program that goes back and forth comes past the same addresses again and again. */
	run->unpaid += run->next - first;
	if (run->unpaid < WORK_AT_ONCE)
		return;
	if (!dwarf_spend(run->dwarf, run->unpaid))
		run->missing = 0;
	run->unpaid = 0;
}

/* A row that is not below `ends_at`. */
static void pass_addresses(struct line_run *run, uint64_t address)
{
	if (run->is_moved)
		run->next = vaddrs_lower_bound(run->vaddrs, run->count, address);
	else if (!run->is_dead)
		fill_rows(run, address);
	run->is_moved = false;
	run->ends_at =
		run->is_dead || run->next == run->count ? UINT64_MAX : run->vaddrs[run->next] + 1;
}

static inline void emit_row(struct line_run *run, const struct registers *now)
{
	if (__builtin_expect(now->address >= run->ends_at, false))
		pass_addresses(run, now->address);
	run->last = *now;
}

static void end_sequence(struct line_run *run, struct registers *now)
{
	emit_row(run, now);
	run->is_dead = true;
	run->ends_at = UINT64_MAX;
	now->file = 1;
	now->line = 1;
}

static void set_address(struct line_run *run, struct registers *now, uint64_t address)
{
	/* Within a sequence the row before holds until here, if this is further on. */
	if (!run->is_moved && !run->is_dead && address > now->address)
		fill_rows(run, address);
	now->address = address;
	run->is_dead = address < run->dwarf->code_start || address >= run->dwarf->code_limit;
	run->is_moved = true;
	run->ends_at = run->is_dead ? UINT64_MAX : 0;
}

/* An operation that begins or ends a sequence; the others say nothing of interest. */
static void take_extended(
	struct line_run *run, struct registers *now, const unsigned char *data, uint64_t size)
{
	struct cursor operation = cursor_over(data, size);

	switch (cursor_u8(&operation)) {
	case DW_LNE_end_sequence:
		end_sequence(run, now);
		break;
	case DW_LNE_set_address:
		set_address(run, now, size == 9 ? cursor_u64(&operation) : cursor_u32(&operation));
		break;
	default:
		break;
	}
}

/* What each special opcode adds, so that a row takes no division. */
struct special {
	uint16_t address;
	int16_t line;
};

static void list_specials(const struct dwarf_lines *lines, struct special specials[256])
{
	for (unsigned opcode = lines->opcode_base; opcode < 256; opcode++) {
		const unsigned adjusted = opcode - lines->opcode_base;
		specials[opcode].address =
			(uint16_t)(adjusted / lines->line_range * lines->minimum_instruction);
		specials[opcode].line =
			(int16_t)(lines->line_base + (int)(adjusted % lines->line_range));
	}
}

/* Takes an opcode below opcode_base; true when it makes a row. */
static inline bool take_standard(struct line_run *run, const struct dwarf_lines *lines,
	struct cursor *in, struct registers *now, uint8_t opcode)
{
	switch (opcode) {
	case 0: {
		const uint64_t size = cursor_uleb(in);
		const unsigned char *const data = cursor_take(in, size);
		if (data == NULL || size == 0 || data[0] > DW_LNE_set_address)
			return false;
		struct registers copy = *now;
		take_extended(run, &copy, data, size);
		*now = copy;
		return false;
	}
	case DW_LNS_copy:
		return true;
	case DW_LNS_advance_pc:
		now->address += cursor_uleb(in) * lines->minimum_instruction;
		return false;
	case DW_LNS_advance_line:
		now->line += (uint64_t)cursor_sleb(in);
		return false;
	case DW_LNS_set_file:
		now->file = cursor_uleb(in);
		return false;
	case DW_LNS_set_column:
		(void)cursor_uleb(in);
		return false;
	case DW_LNS_negate_stmt:
	case DW_LNS_set_basic_block:
		return false;
	case DW_LNS_const_add_pc:
		now->address += (uint64_t)((255u - lines->opcode_base) / lines->line_range *
					   lines->minimum_instruction);
		return false;
	case DW_LNS_fixed_advance_pc:
		now->address += cursor_u16(in);
		return false;
	default:
		for (unsigned i = 0; i < lines->opcode_lengths[opcode - 1]; i++)
			(void)cursor_uleb(in);
		return false;
	}
}

/*
 * Its state is in local variables, of which only copies are handed on: registers of this machine.
 */
void dwarf_lines_run(const struct dwarf_lines *lines, const uint64_t *vaddrs, size_t count,
	struct dwarf_row *rows)
{
	const uint8_t opcode_base = lines->opcode_base;
	struct special specials[256];
	struct cursor in = lines->program;
	struct registers now = { .file = 1, .line = 1 };
	struct line_run run = {
		.dwarf = lines->unit->dwarf,
		.vaddrs = vaddrs,
		.count = count,
		.rows = rows,
		.missing = count,
		.is_dead = true,
		.ends_at = UINT64_MAX,
	};

	list_specials(lines, specials);
	while (cursor_left(&in) > 0) {
		const uint8_t opcode = *in.position++;
		if (opcode >= opcode_base) {
			now.address += specials[opcode].address;
			now.line += (uint64_t)(int64_t)specials[opcode].line;
		} else if (!take_standard(&run, lines, &in, &now, opcode)) {
			if (run.missing == 0)
				break;
			continue;
		}
		emit_row(&run, &now);
		if (run.missing == 0)
			break;
	}
}
