/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_line.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"

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
		if (!dwarf_spend(lines->unit->dwarf, format_count))
			break;
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
	/* Units may share a program. */
	if (!dwarf_spend(lines->unit->dwarf, length))
		return false;
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
	if (!read_header(lines, &in)) {
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
