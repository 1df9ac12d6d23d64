/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64-bit keys and their positions, numbered from 0 in the order of adding: addresses of locations,
 * ids of an input's items.
 *
 * The same few thousand addresses make up millions of frames, so this is what reading a text
 * profile spends most of its time with. The table has open addressing, small slots, so that it
 * stays in the processor's cache, and is at most half full. A search begins at a pair of slots and
 * reads both without a branch: a third slot is a branch that the processor did not predict, which
 * costs more than all the rest.
 *
 * A free slot holds 0, the position of the first key: every search compares keys anyway.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_index.h"

#define U64_TABLE_NONE UINT32_MAX

struct u64_table {
	uint32_t *slots; /* positions */
	uint64_t *keys;
	uint64_t factor; /* odd and random: no input can choose keys that collide */
	uint32_t mask;	 /* slots - 1 */
	uint32_t pairs;	 /* the same without its lowest bit */
	size_t count, capacity;
};

/* `seed` is from hash_seed(). */
void u64_table_init(struct u64_table *table, uint64_t seed);
void u64_table_deinit(struct u64_table *table);

/*
 * Spread over all bits. Both halves of the product: the lower bits of the lower half depend on
 * those of the key alone, so keys that share them would collide with any factor.
 */
static inline uint64_t u64_table_hash(const struct u64_table *table, uint64_t key)
{
	return hash_product(key, table->factor);
}

/* The pair of slots where the search for a key begins. */
static inline uint32_t *u64_table_pair(const struct u64_table *table, uint64_t key)
{
	return &table->slots[u64_table_hash(table, key) & table->pairs];
}

static inline void u64_table_prefetch(const struct u64_table *table, uint64_t key)
{
	__builtin_prefetch(u64_table_pair(table, key));
}

/*
 * The position of a key if it is in its pair of slots, as nearly always; otherwise that of another
 * key. The table must not be empty.
 */
static inline uint32_t u64_table_guess(const struct u64_table *table, uint64_t key)
{
	const uint32_t *const pair = u64_table_pair(table, key);

	return pair[table->keys[pair[1]] == key];
}

/* The position of a key, or U64_TABLE_NONE. */
uint32_t u64_table_find(const struct u64_table *table, uint64_t key);

/* Adds a key that is not there, and returns its position. */
uint32_t u64_table_add(struct u64_table *table, uint64_t key);
