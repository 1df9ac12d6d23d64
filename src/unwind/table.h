/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the unwind table of one module: the call frame information of its .eh_frame section,
 * which the loader maps with the program, as rows that a walk finds by binary search.
 *
 * The functions are taken from the sorted index in .eh_frame_hdr, so the rows come out sorted. The
 * bytes may be hostile or garbage: whatever they say, the result is a table in order. Formats:
 * DWARF 5 section 6.4; the Linux Standard Base's "DWARF Extensions" for the two sections and their
 * pointers. No heap; no system call but those of `memory`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/memory.h"
#include "unwind/row.h"

/* Bytes of a section, and the address that they have in the process. Borrowed. */
struct unwind_section {
	const void *bytes;
	size_t size;
	uint64_t address;
};

struct unwind_table {
	struct unwind_row *rows; /* sorted by pc; the last one is UNWIND_CFA_NONE */
	size_t count;
	uint64_t code_bytes;	/* in functions that .eh_frame describes */
	uint64_t covered_bytes; /* of these: with a row that leads to the caller */
	size_t capacity;
	const struct memory *memory;
};

enum {
	/* 128 MiB of rows: fifteen times the largest library that is known (libLLVM). */
	UNWIND_ROWS_MAX = 16 * 1024 * 1024,
};

/*
 * What .eh_frame_hdr contains about .eh_frame: where it begins, and the bytes up to its last entry;
 * the length of that entry, which is not in the index, is still to be added. ERROR_UNSUPPORTED
 * without an index in the form that linkers write.
 */
struct unwind_extent {
	uint64_t address;
	uint64_t last_entry; /* address of the entry that lies highest */
	size_t functions;
};

MUST_CHECK bool unwind_extent(
	const struct unwind_section *header, struct unwind_extent *extent, struct error *err);

/* Where .eh_frame is, by .eh_frame_hdr alone. */
MUST_CHECK bool unwind_frames_address(
	const struct unwind_section *header, uint64_t *address, struct error *err);

/*
 * `base` is what the rows' pc count from; functions outside of [base, base + 4 GiB) are left out.
 * ERROR_MEMORY; ERROR_INPUT when nothing in it can be read. Release with unwind_table_deinit.
 */
MUST_CHECK bool unwind_table_build(struct unwind_table *table, enum unwind_machine machine,
	const struct unwind_section *header, const struct unwind_section *frames, uint64_t base,
	const struct memory *memory, struct error *err);
void unwind_table_deinit(struct unwind_table *table);

/*
 * The rule for one address straight from the two sections, some 50 times slower than a table's.
 * For code that no table was built for yet.
 */
struct unwind_rule unwind_section_find(enum unwind_machine machine,
	const struct unwind_section *header, const struct unwind_section *frames, uint64_t address);

/*
 * Where the function that holds `address` begins, by the same two sections. False when none of
 * those described holds it.
 */
bool unwind_section_function(enum unwind_machine machine, const struct unwind_section *header,
	const struct unwind_section *frames, uint64_t address, uint64_t *begin);

/* The rule for the instruction at base + `pc`. */
struct unwind_rule unwind_table_find(const struct unwind_row *rows, size_t count, uint32_t pc);

/*
 * Builds the unwind table of a module out of the memory of the process that has loaded it, this one
 * or another. No file is needed: what is mapped is what runs, also where the file was replaced
 * since or lies in another container.
 */

/* Copies `size` bytes of the process at `address`; false when not all of them can be read. */
typedef bool unwind_copy(void *context, uint64_t address, void *bytes, size_t size);

/* The segment PT_GNU_EH_FRAME, which is .eh_frame_hdr, in the process. */
struct unwind_loaded {
	uint64_t address;
	uint64_t size;
	bool is_frames; /* there is none: it is .eh_frame itself */
	unwind_copy *copy;
	void *context;
};

/* As unwind_table_build(). ERROR_INPUT when the sections cannot be read. */
MUST_CHECK bool unwind_loaded_table(struct unwind_table *table, enum unwind_machine machine,
	const struct unwind_loaded *header, uint64_t base, const struct memory *memory,
	struct error *err);
