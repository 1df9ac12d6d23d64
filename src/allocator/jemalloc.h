/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A jemalloc that was found in this process, as its four functions; and the operations of
 * allocator.h on it. Names and return codes are mallctl(3)'s: 0 or an errno value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct allocator;
struct allocator_operations;

typedef int jemalloc_mallctl_function(
	const char *name, void *old, size_t *old_size, void *new, size_t new_size);
typedef int jemalloc_nametomib_function(const char *name, size_t *mib, size_t *mib_size);
typedef void jemalloc_stats_function(
	void (*write)(void *context, const char *text), void *context, const char *options);

struct jemalloc_functions {
	jemalloc_mallctl_function *mallctl; /* NULL: no jemalloc */
	/* The linker may have dropped these from a static program: NULL then. */
	jemalloc_nametomib_function *nametomib;
	jemalloc_stats_function *stats_print;
};

extern const struct allocator_operations jemalloc_operations;

/* Every operation fails with allocator->unavailable. */
extern const struct allocator_operations absent_operations;

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

/*
 * What a mallctl's return code means; always false. `verb` is "reading" or "writing".
 */
bool jemalloc_failure(const struct allocator *allocator, const char *verb, const char *name,
	int code, struct error *err);

/* "profiling is not enabled in this process", with how to start it as the hint; always false. */
bool jemalloc_not_enabled(const struct allocator *allocator, struct error *err);

/*
 * Whether switching profiling on at the start would be the end of it: the compiler's unwinder
 * aborts in programs that glibc is linked into statically.
 */
bool jemalloc_would_end_the_process(const struct allocator *allocator);
