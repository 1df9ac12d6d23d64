/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the allocator that a process has, which are to be patched: found by the symbols
 * of the file, and compared with what is in memory.
 *
 * One allocator is patched: the one that the program brings itself, or else a library's that is
 * there for it, or else the C library's. What is refused is refused before anything was touched.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "sampler/entry_area.h"
#include "symbol/elf_image.h"

struct entry_function {
	const char *name; /* of ENTRY_LIST, without the allocator's prefix */
	uint8_t index;	  /* there */
	bool releases;
	uint64_t address;
	const unsigned char *bytes; /* all of it, in the file */
	size_t size;
};

struct entry_functions {
	struct elf_image image;
	char where[256];	       /* the file */
	char missed[ENTRY_NOTE_BYTES]; /* those that cannot be patched: "NAME is too short; ..." */
	/* Where the area may be. */
	uint64_t first, limit;
	struct entry_function functions[ENTRY_PATCHES_MAX];
	size_t count;
};

/* Whose functions: `auto` patches only an allocator that the tables of modules do not show. */
enum entry_scope { ENTRY_OF_PROGRAM, ENTRY_OF_ANY };

/*
 * ERROR_NOT_FOUND when there is no allocator of that scope whose functions have symbols;
 * ERROR_UNSUPPORTED when one that releases blocks cannot be patched, as those would seem to stay;
 * ERROR_STATE when another tool has patched one. Release with entry_functions_deinit, on failure
 * too.
 */
MUST_CHECK bool entry_functions_find(
	struct entry_functions *found, pid_t pid, enum entry_scope scope, struct error *err);
void entry_functions_deinit(struct entry_functions *found);
