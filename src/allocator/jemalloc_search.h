/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for jemallocs in this process, wherever their names can be read: dynamic symbols under
 * each known prefix, the program's own symbol table, its separate debug file, the other loaded
 * files. Run once at the start; dlsym may allocate.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "allocator/jemalloc.h"

enum { JEMALLOC_SEARCH_MAX = 4 };

struct jemalloc_candidate {
	struct jemalloc_functions functions;
	char prefix[32];
	char symbol[64];
	char where[ALLOCATOR_PATH_MAX];
	const char *found_by;
	bool owns_malloc;
};

struct jemalloc_search {
	struct jemalloc_candidate found[JEMALLOC_SEARCH_MAX];
	size_t count;
	bool program_stripped;	   /* no symbol table in the program, nor a debug file for it */
	bool program_has_jemalloc; /* it is inside, but no function of it was found */
	char program_build_id[160];
};

void jemalloc_search(struct jemalloc_search *search);

/*
 * The one to work with: that which owns malloc, or else the first that the program may call. NULL
 * when there is none, as when the malloc of a linked library was replaced by another's.
 */
const struct jemalloc_candidate *jemalloc_search_choice(const struct jemalloc_search *search);
