/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index from keys that live in the caller's array to their positions there.
 *
 * The index stores positions (32 bits) and a piece of each key's hash; the keys stay with the
 * caller, which passes a function that compares one with the item at a position. Open addressing,
 * at most half full. For the offline side. Not for two threads at once.
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
