/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of an allocator, each with a function that counts and then calls it.
 *
 * An entry is replaced in the tables through which modules call each other (sampler/got.h), so the
 * program keeps its allocator, and what was replaced can be put back at any time. One allocator
 * of the process is profiled: the one that its malloc is.
 *
 * The stack of a sample begins at the caller of the entry. `operator new` is replaced only where
 * the allocator brings its own; the C++ library's calls malloc, which counts. What
 * malloc_usable_size reports is the allocator's, because no block is changed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "sampler/got.h"

/*
 * All entries; sets `count`. The last are mmap, munmap and mremap, for memory that the program maps
 * without an allocator: they count if that was requested.
 */
const struct entry *entries_list(size_t *count);

/*
 * While none is replaced; dlsym may allocate. Not for functions that are patched themselves.
 */
void entries_request_mapped(bool is_requested);
bool entries_has_mapped(void);

/* Tells the sampler where the functions that count are: for those that are patched themselves. */
void entries_note_code(void);

/* The function that calls of `name` in another module reach; NULL: none. dlsym may allocate. */
void *entries_definition(const char *name);

/*
 * Finds the originals in the process, as the process calls them. Once, before any is replaced;
 * dlsym may allocate. ERROR_UNSUPPORTED when calls of malloc cannot be seen: it is in the program
 * itself, which calls it directly.
 */
MUST_CHECK bool entries_find(struct error *err);
