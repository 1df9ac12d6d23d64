/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line programs (DWARF 2 to 5): the file and line that an address was compiled from. The program is
 * run once for all addresses, which are sorted, and its rows are not stored.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/boundaries.h"
#include "symbol/dwarf_unit.h"

/* The row of an address; file is 0 and has_row false where the program has none. */
struct dwarf_row {
	uint64_t file;
	uint32_t line;
	bool has_row;
};

struct dwarf_line_file {
	const char *name;
	uint64_t directory;
};

/* The header of a unit's program. */
struct dwarf_lines {
	struct dwarf_unit *unit;
	struct cursor program;
	uint16_t version;
	uint8_t minimum_instruction;
	int8_t line_base;
	uint8_t line_range;
	uint8_t opcode_base;
	const unsigned char *opcode_lengths;
	const char **directories;
	struct dwarf_line_file *files;
	size_t directory_count, directory_capacity;
	size_t file_count, file_capacity;
};

/* False when the unit has no program or a damaged one. */
MUST_CHECK bool dwarf_lines_init(struct dwarf_lines *lines, struct dwarf_unit *unit);
void dwarf_lines_deinit(struct dwarf_lines *lines);

/*
 * Runs the program until every address has a row and fills rows[i] for vaddrs[i], which are sorted.
 */
void dwarf_lines_run(const struct dwarf_lines *lines, const uint64_t *vaddrs, size_t count,
	struct dwarf_row *rows);

/* Adds the addresses of all rows, and where sequences end. */
void dwarf_lines_boundaries(const struct dwarf_lines *lines, struct boundaries *boundaries);

/*
 * The path of a file by its number, joined to its directory and the unit's, appended to `out`.
 * Nothing is appended when there is no such file.
 */
void dwarf_lines_path(const struct dwarf_lines *lines, uint64_t file, struct buffer *out);
