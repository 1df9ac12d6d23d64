/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings kept once: equal texts get the same pointer, so they are compared by pointer. The
 * strings live until the pool is deinited. For the offline side. Not for two threads at once.
 */
#pragma once

#include <stddef.h>

#include "base/xalloc.h"
#include "base/hash_index.h"

struct string_pool {
	struct arena arena;
	struct hash_index index;
	uint64_t seed; /* of the index */
	const char **strings;
	size_t count;
	size_t capacity;
	uint64_t read_bytes; /* of all texts that were searched for: the work done, for tests */
};

void string_pool_init(struct string_pool *pool);
void string_pool_deinit(struct string_pool *pool);

/* The pool's copy of the text; never NULL. */
const char *string_pool_add(struct string_pool *pool, const char *text);
const char *string_pool_add_sized(struct string_pool *pool, const char *text, size_t size);

/*
 * Borrowed texts, numbered from 0 in the order of adding and compared by pointer. A text must not
 * change or move while the numbers are used. Starts as { 0 }.
 */
struct text_numbers {
	struct hash_index index;
	const char **texts;
	size_t count, capacity;
};

void text_numbers_deinit(struct text_numbers *numbers);

/* The number of a text, which is added if it is new. */
uint32_t text_numbers_add(struct text_numbers *numbers, const char *text);

/*
 * Borrowed texts and a pool's copies of them. Many items share a long text; asking by its pointer
 * does not read it again. A borrowed text must not change or move while the map is used.
 */
struct text_map {
	struct text_numbers borrowed;
	const char **copies;
	size_t capacity;
};

void text_map_init(struct text_map *map);
void text_map_deinit(struct text_map *map);

/* The pool's copy of a borrowed text; NULL is "". The pool must always be the same. */
const char *text_map_add(struct text_map *map, struct string_pool *pool, const char *borrowed);
