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
	/* A NUL inside would make two different keys look alike. */
	const struct sized_text key = { text, strnlen(text, size) };
	const uint32_t next = (uint32_t)pool->count;

	pool->read_bytes += key.size;
	const uint32_t found =
		hash_index_add(&pool->index, hash_bytes_seeded(pool->seed, key.text, key.size),
			is_text, pool->strings, &key, next);

	if (found != HASH_INDEX_NONE)
		return pool->strings[found];
	pool->strings =
		xgrow(pool->strings, &pool->capacity, pool->count + 1, sizeof *pool->strings);
	pool->strings[pool->count++] = arena_copy_text(&pool->arena, key.text, key.size);
	return pool->strings[next];
}

const char *string_pool_add(struct string_pool *pool, const char *text)
{
	return string_pool_add_sized(pool, text, strlen(text));
}

struct text_map_entry {
	const char *borrowed;
	const char *kept;
};

void text_map_init(struct text_map *map)
{
	*map = (struct text_map){ 0 };
	hash_index_init(&map->index);
}

void text_map_deinit(struct text_map *map)
{
	hash_index_deinit(&map->index);
	free(map->entries);
	text_map_init(map);
}

static bool is_borrowed(const void *items, uint32_t position, const void *key)
{
	return ((const struct text_map_entry *)items)[position].borrowed == key;
}

const char *text_map_add(struct text_map *map, struct string_pool *pool, const char *borrowed)
{
	const char *const text = borrowed == NULL ? "" : borrowed;
	const uint32_t next = (uint32_t)map->count;
	const uint32_t found = hash_index_add(
		&map->index, hash_u64((uintptr_t)text), is_borrowed, map->entries, text, next);

	if (found != HASH_INDEX_NONE)
		return map->entries[found].kept;
	map->entries = xgrow(map->entries, &map->capacity, map->count + 1, sizeof *map->entries);
	map->entries[map->count++] = (struct text_map_entry){ text, string_pool_add(pool, text) };
	return map->entries[next].kept;
}
