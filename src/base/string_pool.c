/* SPDX-License-Identifier: Apache-2.0 */
#include "base/string_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

struct sized_text {
	const char *text;
	size_t size;
};

void string_pool_init(struct string_pool *pool)
{
	*pool = (struct string_pool){ .seed = hash_seed() };
	arena_init(&pool->arena);
	hash_index_init(&pool->index);
}

void string_pool_deinit(struct string_pool *pool)
{
	arena_deinit(&pool->arena);
	hash_index_deinit(&pool->index);
	free(pool->strings);
	*pool = (struct string_pool){ 0 };
}

static bool is_text(const void *items, uint32_t position, const void *key)
{
	const char *const *const strings = items;
	const struct sized_text *const wanted = key;
	const char *const have = strings[position];

	return strncmp(have, wanted->text, wanted->size) == 0 && have[wanted->size] == '\0';
}

const char *string_pool_add_sized(struct string_pool *pool, const char *text, size_t size)
{
	/* A NUL inside would make two different keys the same. */
	const struct sized_text key = { text, strnlen(text, size) };
	const uint32_t next = (uint32_t)pool->count;

	pool->read_bytes += key.size;
	const uint32_t found =
		hash_index_add(&pool->index, hash_bytes_seeded(pool->seed, key.text, key.size),
			is_text, pool->strings, &key, next);

	if (found != HASH_INDEX_NONE)
		return pool->strings[found];
	*XAPPEND(pool->strings, pool->count, pool->capacity) =
		arena_copy_text(&pool->arena, key.text, key.size);
	return pool->strings[next];
}

const char *string_pool_add(struct string_pool *pool, const char *text)
{
	return string_pool_add_sized(pool, text, strlen(text));
}

void text_numbers_deinit(struct text_numbers *numbers)
{
	hash_index_deinit(&numbers->index);
	free(numbers->texts);
	*numbers = (struct text_numbers){ 0 };
}

static bool is_same_text(const void *items, uint32_t position, const void *key)
{
	return ((const char *const *)items)[position] == key;
}

uint32_t text_numbers_add(struct text_numbers *numbers, const char *text)
{
	const uint32_t next = (uint32_t)numbers->count;
	const uint32_t found = hash_index_add(&numbers->index, hash_u64((uintptr_t)text),
		is_same_text, numbers->texts, text, next);

	if (found != HASH_INDEX_NONE)
		return found;
	*XAPPEND(numbers->texts, numbers->count, numbers->capacity) = text;
	return next;
}

void text_map_init(struct text_map *map)
{
	*map = (struct text_map){ 0 };
}

void text_map_deinit(struct text_map *map)
{
	text_numbers_deinit(&map->borrowed);
	free(map->copies);
	text_map_init(map);
}

const char *text_map_add(struct text_map *map, struct string_pool *pool, const char *borrowed)
{
	const char *const text = borrowed == NULL ? "" : borrowed;
	const size_t count = map->borrowed.count;
	const uint32_t number = text_numbers_add(&map->borrowed, text);

	if (number == count) {
		map->copies = xgrow(map->copies, &map->capacity, count + 1, sizeof *map->copies);
		map->copies[number] = string_pool_add(pool, text);
	}
	return map->copies[number];
}
