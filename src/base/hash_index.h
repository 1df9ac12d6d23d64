/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index from keys that live in the caller's array to their positions there.
 *
 * The index stores positions (32 bits) and a piece of each key's hash; the keys stay with the
 * caller, which passes a function that compares one with the item at a position. Open addressing,
 * at most half full. At the end is u64_table, which keeps its keys itself. For the offline side.
 * Not for two threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_INDEX_NONE UINT32_MAX

struct hash_index_slot {
	uint32_t position; /* HASH_INDEX_NONE where free */
	uint32_t tag;	   /* the upper half of the hash */
};

struct hash_index {
	struct hash_index_slot *slots;
	uint32_t mask; /* slots - 1, 0 when there are none */
	uint32_t used;
};

/* Whether the item at `position` of the caller's array, reached through `items`, is `key`. */
typedef bool hash_index_equal(const void *items, uint32_t position, const void *key);

void hash_index_init(struct hash_index *index);
void hash_index_deinit(struct hash_index *index);

/* The position of `key`, or HASH_INDEX_NONE. */
uint32_t hash_index_find(const struct hash_index *index, uint64_t hash, hash_index_equal *equal,
	const void *items, const void *key);

/*
 * The position of `key` when it is there; otherwise stores `position` for it and returns
 * HASH_INDEX_NONE, and the caller puts the item at that position. The tag is kept with the slot,
 * so growing needs no hash function: `hash` must be spread over all 64 bits.
 */
uint32_t hash_index_add(struct hash_index *index, uint64_t hash, hash_index_equal *equal,
	const void *items, const void *key, uint32_t position);

/* Begins to fetch the memory that a search for this hash reads first. */
static inline void hash_index_prefetch(const struct hash_index *index, uint64_t hash)
{
	if (index->slots != NULL)
		__builtin_prefetch(&index->slots[(uint32_t)(hash >> 32) & index->mask]);
}

/*
 * Hashes spread over all 64 bits. Their key differs between processes, so that an attacker cannot
 * make keys that collide. Nothing that is stored or shown may depend on them; for that there are
 * the hash_fixed_ ones, which are the same everywhere.
 */
uint64_t hash_bytes(const void *data, size_t size);
uint64_t hash_fixed_bytes(const void *data, size_t size);

/* With a further key. */
uint64_t hash_bytes_seeded(uint64_t seed, const void *data, size_t size);

/* Such a key: random, and another one each time. */
uint64_t hash_seed(void);

/* Random, the second one odd; set before main. */
extern uint64_t hash_keys[2];

/* Both halves of the product. */
static inline uint64_t hash_product(uint64_t a, uint64_t b)
{
	const __uint128_t product = (__uint128_t)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_fixed_u64(uint64_t value)
{
	return hash_product(value ^ 0x9e3779b97f4a7c15u, 0xd6e8feb86659fd93u);
}

static inline uint64_t hash_fixed_combine(uint64_t a, uint64_t b)
{
	return hash_fixed_u64(a * 0x9fb21c651e98df25u + b);
}

static inline uint64_t hash_u64(uint64_t value)
{
	return hash_product(value ^ hash_keys[0], hash_keys[1]);
}

static inline uint64_t hash_combine(uint64_t a, uint64_t b)
{
	return hash_u64(a * 0x9fb21c651e98df25u + b);
}

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
