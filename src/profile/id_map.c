/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/id_map.h"

#include <stdlib.h>

#include "base/xalloc.h"

void id_map_init(struct id_map *map, uint64_t seed)
{
	*map = (struct id_map){ .seed = seed };
	hash_index_init(&map->index);
}

void id_map_deinit(struct id_map *map)
{
	free(map->ids);
	hash_index_deinit(&map->index);
}

static bool is_id(const void *items, uint32_t position, const void *key)
{
	return ((const uint64_t *)items)[position] == *(const uint64_t *)key;
}

uint32_t id_map_find(const struct id_map *map, uint64_t id)
{
	return hash_index_find(&map->index, hash_u64(id ^ map->seed), is_id, map->ids, &id);
}

bool id_map_add(struct id_map *map, uint64_t id)
{
	const uint32_t next = (uint32_t)map->count;

	if (map->count >= ID_MAP_NONE - 1)
		return false;
	if (hash_index_add(&map->index, hash_u64(id ^ map->seed), is_id, map->ids, &id, next) !=
		HASH_INDEX_NONE)
		return false;
	map->ids = xgrow(map->ids, &map->capacity, map->count + 1, sizeof *map->ids);
	map->ids[map->count++] = id;
	return true;
}
