/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers that an input gave to its items, and the positions of these in the order of adding.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_index.h"

#define ID_MAP_NONE UINT32_MAX

struct id_map {
	uint64_t *ids;
	size_t count;
	size_t capacity;
	struct hash_index index;
	uint64_t seed;
};

/* `seed` is from hash_seed(). */
void id_map_init(struct id_map *map, uint64_t seed);
void id_map_deinit(struct id_map *map);

/* ID_MAP_NONE for a number that was not added. */
uint32_t id_map_find(const struct id_map *map, uint64_t id);

/* False when the number is taken, or when there are more than can be counted in 32 bits. */
bool id_map_add(struct id_map *map, uint64_t id);
