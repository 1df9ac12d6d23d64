/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_line.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/search.h"
#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"
#include "symbol/dwarf_value.h"

struct entry_format {
	uint64_t content;
	uint16_t form;
};

static void add_directory(struct dwarf_lines *lines, const char *name)
{
	*XAPPEND(lines->directories, lines->directory_count, lines->directory_capacity) = name;
}

static void add_file(struct dwarf_lines *lines, const char *name, uint64_t directory)
{
	*XAPPEND(lines->files, lines->file_count, lines->file_capacity) =
		(struct dwarf_line_file){ name, directory };
}

/* Directory 0 is the unit's own, file 0 the unit itself, as DWARF 5 writes them. */
static void read_old_tables(struct dwarf_lines *lines, struct cursor *in)
{
	const struct dwarf_root *const root = dwarf_unit_root(lines->unit);

	add_directory(lines, dwarf_value_text(lines->unit, &root->directory));
	for (;;) {
		const char *const name = cursor_string(in);
		if (name[0] == '\0')
			break;
		add_directory(lines, name);
	}
	add_file(lines, dwarf_value_text(lines->unit, &root->name), 0);
	for (;;) {
		const char *const name = cursor_string(in);
		if (name[0] == '\0')
			break;
		const uint64_t directory = cursor_uleb(in);
		(void)cursor_uleb(in); /* time */
		(void)cursor_uleb(in); /* size */
		add_file(lines, name, directory);
	}
}

/* One of the two tables of DWARF 5, whose columns the header describes. */
static void read_new_table(struct dwarf_lines *lines, struct cursor *in,
	const struct dwarf_encoding *encoding, bool is_files)
{
	struct entry_format formats[256];
	const unsigned format_count = cursor_u8(in);

	for (unsigned i = 0; i < format_count; i++) {
		formats[i].content = cursor_uleb(in);
		const uint64_t form = cursor_uleb(in);
		formats[i].form = form > UINT16_MAX ? 0 : (uint16_t)form;
	}
	const uint64_t count = cursor_uleb(in);
	uint64_t pending = 0;
	for (uint64_t i = 0; i < count && cursor_left(in) > 0; i++) {
		if (!dwarf_spend_batched(lines->unit->dwarf, &pending, format_count))
			break;
		const unsigned char *const begin = in->position;
		const char *name = "";
		uint64_t directory = 0;
		for (unsigned j = 0; j < format_count; j++) {
			const struct dwarf_value value =
				dwarf_value_read(in, formats[j].form, 0, encoding);
			if (formats[j].content == DW_LNCT_path && cursor_ok(in))
				name = dwarf_value_text(lines->unit, &value);
			else if (formats[j].content == DW_LNCT_directory_index)
				directory = value.number;
		}
		/* Entries that take no bytes could be claimed without end. */
		if (!cursor_ok(in) || in->position == begin)
			break;
		if (is_files)
			add_file(lines, name, directory);
		else
			add_directory(lines, name);
	}
	(void)dwarf_spend(lines->unit->dwarf, pending);
}

static bool read_header(struct dwarf_lines *lines, struct cursor *in)
{
	struct dwarf_encoding encoding = {
		.offset_bytes = 4,
		.address_bytes = lines->unit->encoding.address_bytes,
	};
	uint64_t length = cursor_u32(in);

	if (length == UINT32_MAX) {
		encoding.offset_bytes = 8;
		length = cursor_u64(in);
	}
	if (!cursor_ok(in) || length > cursor_left(in))
		return false;
	in->end = in->position + length;
	/* Units may share a program. */
	if (!dwarf_spend(lines->unit->dwarf, length))
		return false;
	const uint16_t version = cursor_u16(in);
	if (version < 2 || version > 5)
		return false;
	lines->version = encoding.version = version;
	if (version >= 5) {
		encoding.address_bytes = cursor_u8(in);
		cursor_skip(in, 1); /* size of a segment selector */
	}
	const uint64_t header_bytes = encoding.offset_bytes == 8 ? cursor_u64(in) : cursor_u32(in);
	if (header_bytes > cursor_left(in))
		return false;
	lines->program = *in;
	lines->program.position += header_bytes;

	lines->minimum_instruction = cursor_u8(in);
	/* maximum_operations_per_instruction, for VLIW machines only, and default_is_stmt */
	cursor_skip(in, version >= 4 ? 2 : 1);
	lines->line_base = (int8_t)cursor_u8(in);
	lines->line_range = cursor_u8(in);
	lines->opcode_base = cursor_u8(in);
	if (lines->opcode_base == 0 || lines->line_range == 0)
		return false;
	lines->opcode_lengths = cursor_take(in, lines->opcode_base - 1u);
	in->end = lines->program.position;
	if (in->position > in->end || !cursor_ok(in))
		return false;
	if (version >= 5) {
		read_new_table(lines, in, &encoding, false);
		read_new_table(lines, in, &encoding, true);
	} else {
		read_old_tables(lines, in);
	}
	return true;
}

static const char line_damage[] = "a line table that cannot be read";

bool dwarf_lines_init(struct dwarf_lines *lines, struct dwarf_unit *unit)
{
	const struct dwarf_root *const root = dwarf_unit_root(unit);
	const struct elf_bytes *const section = &unit->dwarf->sections[DWARF_LINE];

	*lines = (struct dwarf_lines){ .unit = unit };
	if (root->lines.form == 0)
		return false;
	struct cursor in = cursor_over(section->data, section->size);
	cursor_seek(&in, root->lines.number);
	if (!read_header(lines, &in)) {
		/* Without the section, lines were left out on purpose. */
		if (section->size != 0)
			dwarf_note_damage(unit->dwarf, line_damage);
		dwarf_lines_deinit(lines);
		return false;
	}
	return true;
}

void dwarf_lines_deinit(struct dwarf_lines *lines)
{
	free(lines->directories);
	free(lines->files);
	*lines = (struct dwarf_lines){ 0 };
}

/* Appends a directory of the table, itself joined to the unit's. */
static void append_directory(
	const struct dwarf_lines *lines, uint64_t directory, struct buffer *out)
{
	const char *const name =
		directory < lines->directory_count ? lines->directories[directory] : "";

	if (name[0] != '/') {
		const struct dwarf_root *const root = dwarf_unit_root(lines->unit);
		buffer_append_string(out, dwarf_value_text(lines->unit, &root->directory));
		if (directory == 0)
			return;
	}
	if (name[0] != '\0' && out->size > 0 && out->data[out->size - 1] != '/')
		buffer_append_char(out, '/');
	buffer_append_string(out, name);
}

void dwarf_lines_path(const struct dwarf_lines *lines, uint64_t file, struct buffer *out)
{
	if (file >= lines->file_count || (file == 0 && lines->version < 5))
		return;
	const struct dwarf_line_file *const entry = &lines->files[file];
	if (entry->name[0] == '\0')
		return;
	const size_t start = out->size;
	if (entry->name[0] != '/')
		append_directory(lines, entry->directory, out);
	if (out->size > start && out->data[out->size - 1] != '/')
		buffer_append_char(out, '/');
	buffer_append_string(out, entry->name);
}

/* The registers of the machine that runs the program, as far as they are of interest. */
struct registers {
	uint64_t address;
	uint64_t file;
	uint64_t line;
};

/*
 * What a run has found. A row applies from its address to that of the next one. Most rows lie
 * between two of the queried addresses, so a row costs one comparison with `ends_at`.
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
	uint64_t pending;      /* work that is still to be charged */
	uint64_t ends_at;      /* a row below this neither ends nor begins a queried one */
};

/*
 * The row before applies up to `limit`. The first row that covers an address stays: what overlaps
 * it comes from discarded code.
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
	/* A program that goes back and forth reaches the same addresses again and again. */
	if (!dwarf_spend_batched(run->dwarf, &run->pending, run->next - first))
		run->missing = 0;
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
	/* Within a sequence the row before applies up to here, if this address is higher. */
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
		if (data != NULL && size == 0)
			dwarf_note_damage(lines->unit->dwarf, line_damage);
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
 * Its state is in local variables, of which only copies are passed on, so that they stay in
 * registers.
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

void dwarf_lines_boundaries(const struct dwarf_lines *lines, struct boundaries *boundaries)
{
	struct special specials[256];
	struct cursor in = lines->program;
	struct registers now = { .file = 1, .line = 1 };
	struct line_run run = { .dwarf = lines->unit->dwarf, .is_dead = true };
	uint64_t before = 0;

	list_specials(lines, specials);
	while (cursor_left(&in) > 0 && dwarf_spend_batched(run.dwarf, &run.pending, 1)) {
		const uint8_t opcode = *in.position++;
		if (opcode >= lines->opcode_base)
			now.address += specials[opcode].address;
		else
			(void)take_standard(&run, lines, &in, &now, opcode);
		/* An address that no row has yet does no harm. */
		if (now.address != before &&
			dwarf_spend_batched(run.dwarf, &run.pending, BOUNDARY_WORK))
			boundaries_add(boundaries, now.address);
		before = now.address;
	}
}
