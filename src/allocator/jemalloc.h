/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of allocator.h on a jemalloc. Names and return codes are mallctl(3)'s: 0 or an
 * errno value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "allocator/allocator.h"

extern const struct allocator_operations jemalloc_operations;

/* Typed reads; the mallctl's return code, `*value` untouched unless it is 0. */
int jemalloc_read_bool(const struct jemalloc_functions *jemalloc, const char *name, bool *value);
int jemalloc_read_size(const struct jemalloc_functions *jemalloc, const char *name, size_t *value);
int jemalloc_read_ssize(
	const struct jemalloc_functions *jemalloc, const char *name, int64_t *value);
/* Copies the text, cut to `room`. */
int jemalloc_read_text(
	const struct jemalloc_functions *jemalloc, const char *name, char *text, size_t room);

/* Fills identity.version, .profiling, .configuration and .unavailable from what jemalloc says. */
void jemalloc_read_capabilities(struct allocator *allocator);

/* Fails with what a mallctl's return code means and what to do. `verb` is "reading" or "writing".
 */
bool jemalloc_failure(const struct allocator *allocator, const char *verb, const char *name,
	int code, struct error *err);

/* Fails with "profiling is not enabled in this process"; the hint says how to start it. */
bool jemalloc_not_enabled(const struct allocator *allocator, struct error *err);

/*
 * Whether the process would end if profiling were switched on at its start: the compiler's unwinder
 * aborts in programs that glibc is linked into statically.
 */
bool jemalloc_would_end_the_process(const struct allocator *allocator);

/*
 * Looks for jemallocs in this process, wherever their names can be read: dynamic symbols under
 * each known prefix, the program's own symbol table, its separate debug file, the other loaded
 * files. Run once at the start; dlsym may allocate.
 */
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
