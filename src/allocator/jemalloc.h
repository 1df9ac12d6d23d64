/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of allocator.h on a jemalloc. Names and return codes are mallctl(3)'s: 0 or an
 * errno value.
 */
#pragma once

#include "allocator/allocator.h"

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
