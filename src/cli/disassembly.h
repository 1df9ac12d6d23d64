/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions in the files that they are in, for their assembly: which piece of which file, which of
 * its addresses have figures, its instructions, and the source that they are of.
 */
#pragma once

#include <stdint.h>

#include "analysis/filter.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/string_pool.h"
#include "cli/report_session.h"

/* A place in a routine that something was allocated at. */
struct routine_place {
	uint64_t vaddr; /* as the file has it */
	double flat;
	double cumulative;
};

struct routine {
	const char *name;     /* the view's */
	const char *source;   /* file of its first place with one; "" when unknown */
	const char *build_id; /* of the program that has that place; "" when unknown */
	const char *path;     /* the ELF file to read instructions from */
	uint64_t start, limit;
	struct symbol_mapping code; /* of that file, where it was linked for */
	uint32_t start_line;
	struct routine_place *places;
	size_t count, capacity;
};

struct routine_list {
	struct routine *routines; /* by name */
	size_t count, capacity;
	struct string_pool strings;
};

/*
 * Finds the routines of a view by addresses without inlined frames. Functions of which the program
 * is missing, or that neither symbols nor an index of symbols know, are left out: where they end is
 * not known.
 */
void routine_list_init(struct routine_list *list, const struct report_session *session,
	const struct view *view, struct pattern *pattern);
void routine_list_deinit(struct routine_list *list);

/* The sum of the places from `start` up to `limit`. */
struct routine_place routine_sum(const struct routine *routine, uint64_t start, uint64_t limit);

struct instruction {
	uint64_t start; /* addresses as the file has them */
	uint64_t limit;
	const char *text;
	const char *file; /* "" when unknown */
	uint32_t line;
};

/* The instructions of a piece of an ELF file, with the lines they come from. */
struct disassembly {
	struct instruction *instructions;
	size_t count, capacity;
	struct string_pool strings;
};

/*
 * Which program to use for `tool`: `tools` is jeprof's list of "tool:path" and of prefixes,
 * separated by commas, NULL for none. Release with free().
 */
char *disassembly_find_tool(const char *tool, const char *tools);

/*
 * The instructions of the routine, by running `objdump` (a path) on its file, in Intel's syntax
 * where the session wants that and the machine is an x86. Lines that objdump does not find are the
 * symbolizer's. Initialises `disassembly`, which is to be deinited when that went well.
 */
MUST_CHECK bool disassembly_make(struct disassembly *disassembly, const char *objdump,
	const struct report_session *session, const struct routine *routine, struct error *err);
void disassembly_deinit(struct disassembly *disassembly);

/* Appends the instructions of the routine with their figures, and the source that they are of. */
MUST_CHECK bool routine_write_assembly(const struct routine *routine,
	const struct report_session *session, const struct view *view, const char *objdump,
	struct buffer *out, struct error *err);
