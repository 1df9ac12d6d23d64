/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_line.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"
#include "symbol/vaddrs.h"

struct entry_format {
	uint64_t content;
	uint16_t form;
};

static void add_directory(struct dwarf_lines *lines, const char *name)
{
	lines->directories = xgrow(lines->directories, &lines->directory_capacity,
		lines->directory_count + 1, sizeof *lines->directories);
	lines->directories[lines->directory_count++] = name;
}

static void add_file(struct dwarf_lines *lines, const char *name, uint64_t directory)
{
	lines->files = xgrow(
		lines->files, &lines->file_capacity, lines->file_count + 1, sizeof *lines->files);
	lines->files[lines->file_count++] = (struct dwarf_line_file){ name, directory };
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
	for (uint64_t i = 0; i < count && cursor_left(in) > 0; i++) {
		const unsigned char *const begin = in->position;
		const char *name = "";
		uint64_t directory = 0;
		for (unsigned j = 0; j < format_count; j++) {
			const struct dwarf_attribute attribute = { .form = formats[j].form };
			const struct dwarf_value value = dwarf_value_read(in, &attribute, encoding);
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
	const uint16_t version = cursor_u16(in);
	if (version < 2 || version > 5)
		return false;
	lines->version = encoding.version = (uint8_t)version;
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

bool dwarf_lines_init(struct dwarf_lines *lines, struct dwarf_unit *unit)
{
	const struct dwarf_root *const root = dwarf_unit_root(unit);
	const struct elf_bytes *const section = &unit->dwarf->sections[DWARF_LINE];

	*lines = (struct dwarf_lines){ .unit = unit };
	if (root->lines.form == 0)
		return false;
	struct cursor in = cursor_over(section->data, section->size);
	cursor_seek(&in, root->lines.number);
	if (!read_header(lines, &in) ||
		!dwarf_spend(unit->dwarf,
			(uint64_t)(lines->program.end - in.start) - root->lines.number)) {
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

/*
 * A run of a program: its registers, and the addresses that no row covers yet. Most rows lie
 * between two of these, so a row costs one comparison with `next_vaddr`.
 */
struct line_run {
	const struct dwarf_lines *lines;
	const uint64_t *vaddrs;
	size_t count;
	struct dwarf_row *rows;
	uint64_t address;
	uint64_t file;
	uint64_t line;
	/* The row before, which holds up to where the next begins. */
	bool has_last;
	uint64_t last_file;
	uint64_t last_line;
	/* The address was set, so `next` is to be searched; until then nothing is known. */
	bool is_moved;
	bool is_dead; /* the sequence is of code that the linker threw away */
	size_t next;  /* first of vaddrs not below the last row */
	uint64_t next_vaddr;
};

/* The first row that covers an address stays: what overlaps it comes from discarded code. */
static void fill_rows(struct line_run *run)
{
	for (; run->next < run->count && run->vaddrs[run->next] < run->address; run->next++) {
		struct dwarf_row *const row = &run->rows[run->next];
		if (row->has_row)
			continue;
		row->has_row = true;
		row->file = run->last_file;
		row->line = run->last_line > UINT32_MAX ? 0 : (uint32_t)run->last_line;
	}
}

static void pass_addresses(struct line_run *run)
{
	if (run->has_last && !run->is_dead)
		fill_rows(run);
	if (run->is_moved)
		run->next = vaddrs_lower_bound(run->vaddrs, run->count, run->address);
	run->is_moved = false;
	run->next_vaddr =
		run->is_dead || run->next == run->count ? UINT64_MAX : run->vaddrs[run->next];
}

static inline void emit_row(struct line_run *run)
{
	if (run->next_vaddr < run->address)
		pass_addresses(run);
	run->has_last = true;
	run->last_file = run->file;
	run->last_line = run->line;
}

static void end_sequence(struct line_run *run)
{
	emit_row(run);
	run->has_last = false;
	run->is_dead = true;
	run->next_vaddr = UINT64_MAX;
	run->file = 1;
	run->line = 1;
}

static void set_address(struct line_run *run, uint64_t address)
{
	const struct dwarf *const dwarf = run->lines->unit->dwarf;

	/* Within a sequence the row before holds until here, if this is further on. */
	if (run->has_last && !run->is_dead && address > run->address) {
		run->address = address;
		fill_rows(run);
	}
	run->address = address;
	run->is_dead = address < dwarf->code_start || address >= dwarf->code_limit;
	run->is_moved = true;
	run->has_last = false;
	run->next_vaddr = run->is_dead ? UINT64_MAX : 0;
}

static void take_extended(struct line_run *run, struct cursor *in)
{
	const uint64_t size = cursor_uleb(in);
	const unsigned char *const data = cursor_take(in, size);

	if (data == NULL || size == 0)
		return;
	struct cursor operation = cursor_over(data, size);
	switch (cursor_u8(&operation)) {
	case DW_LNE_end_sequence:
		end_sequence(run);
		break;
	case DW_LNE_set_address:
		set_address(run, size == 9 ? cursor_u64(&operation) : cursor_u32(&operation));
		break;
	default:
		break;
	}
}

static void take_standard(struct line_run *run, struct cursor *in, uint8_t opcode)
{
	const struct dwarf_lines *const lines = run->lines;
	const uint64_t minimum = lines->minimum_instruction;

	switch (opcode) {
	case DW_LNS_copy:
		emit_row(run);
		break;
	case DW_LNS_advance_pc:
		run->address += cursor_uleb(in) * minimum;
		break;
	case DW_LNS_advance_line:
		run->line += (uint64_t)cursor_sleb(in);
		break;
	case DW_LNS_set_file:
		run->file = cursor_uleb(in);
		break;
	case DW_LNS_set_column:
		(void)cursor_uleb(in);
		break;
	case DW_LNS_const_add_pc:
		run->address += (255u - lines->opcode_base) / lines->line_range * minimum;
		break;
	case DW_LNS_fixed_advance_pc:
		run->address += cursor_u16(in);
		break;
	default:
		for (unsigned i = 0; i < lines->opcode_lengths[opcode - 1]; i++)
			(void)cursor_uleb(in);
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

void dwarf_lines_run(
	struct dwarf_lines *lines, const uint64_t *vaddrs, size_t count, struct dwarf_row *rows)
{
	struct special specials[256];
	struct cursor in = lines->program;
	struct line_run run = {
		.lines = lines,
		.vaddrs = vaddrs,
		.count = count,
		.rows = rows,
		.file = 1,
		.line = 1,
		.is_dead = true,
		.next_vaddr = UINT64_MAX,
	};

	list_specials(lines, specials);
	while (in.position < in.end) {
		const uint8_t opcode = *in.position++;
		if (opcode >= lines->opcode_base) {
			run.address += specials[opcode].address;
			run.line += (uint64_t)(int64_t)specials[opcode].line;
			emit_row(&run);
		} else if (opcode == 0) {
			take_extended(&run, &in);
		} else {
			take_standard(&run, &in, opcode);
		}
	}
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
