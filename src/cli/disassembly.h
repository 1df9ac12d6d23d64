/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions of a piece of an ELF file, with the lines they come from: objdump's work. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/string_pool.h"

struct instruction {
	uint64_t start; /* addresses as the file has them */
	uint64_t limit;
	const char *text;
	const char *file; /* "" when unknown */
	uint32_t line;
};

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
 * The instructions from `start` up to `limit`, by running `objdump` (a path) on the file.
 * Initialises `disassembly`, which is to be deinited when that went well.
 */
MUST_CHECK bool disassembly_make(struct disassembly *disassembly, const char *objdump,
	const char *path, uint64_t start, uint64_t limit, struct error *err);
void disassembly_deinit(struct disassembly *disassembly);
