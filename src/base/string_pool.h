/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings kept once: equal texts get the same pointer, so they are compared by pointer. The
 * strings live until the pool is deinited. For the offline side. Not for two threads at once.
 */
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "base/hash_index.h"

struct string_pool {
	struct arena arena;
	struct hash_index index;
	uint64_t seed; /* of the index */
	const char **strings;
	size_t count;
	size_t capacity;
};

void string_pool_init(struct string_pool *pool);
void string_pool_deinit(struct string_pool *pool);

/* The pool's copy of the text; never NULL. */
const char *string_pool_add(struct string_pool *pool, const char *text);
const char *string_pool_add_sized(struct string_pool *pool, const char *text, size_t size);
