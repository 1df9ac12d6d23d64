/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses and their positions, numbered from 0 in the order of adding. The same few thousand
 * addresses make up millions of frames, so this is what reading a profile of text spends most of
 * its time with. The table has open addressing, slots as small as can be, so that it stays in the
 * processor's cache, and is at most half full. An address begins its way through it at a pair
 * of slots, and the first look is at both without a branch: a second look is one that the processor
 * did not expect, which costs more than all the rest.
 *
 * A free slot holds 0, as if the first address were there: who looks compares addresses anyway, and
 * is right wherever the first address is found.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADDRESS_TABLE_NONE UINT32_MAX

struct address_table {
	uint32_t *slots; /* positions */
	uint64_t *addresses;
	uint64_t factor; /* odd and random: no input can choose addresses that collide */
	uint32_t mask;	 /* slots - 1 */
	uint32_t pairs;	 /* the same without its lowest bit */
	size_t count, capacity;
};

/* `seed` is from hash_seed(). */
void address_table_init(struct address_table *table, uint64_t seed);
void address_table_deinit(struct address_table *table);

/*
 * Spread over all bits, and best over the lowest: the upper bits of a product depend on all bits of
 * the address, and the bytes are turned around.
 */
static inline uint64_t address_table_hash(const struct address_table *table, uint64_t address)
{
	return __builtin_bswap64(address * table->factor);
}

/* The pair of slots that the first look is at. */
static inline uint32_t *address_table_pair(const struct address_table *table, uint64_t address)
{
	return &table->slots[address_table_hash(table, address) & table->pairs];
}

/* Begins to fetch the memory that the first look at this address needs. */
static inline void address_table_prefetch(const struct address_table *table, uint64_t address)
{
	__builtin_prefetch(address_table_pair(table, address));
}

/*
 * The position of an address if the first look finds it, as nearly always; otherwise that of
 * another one. The table must not be empty.
 */
static inline uint32_t address_table_guess(const struct address_table *table, uint64_t address)
{
	const uint32_t *const pair = address_table_pair(table, address);

	return pair[table->addresses[pair[1]] == address];
}

/* The position of an address, or ADDRESS_TABLE_NONE. */
uint32_t address_table_find(const struct address_table *table, uint64_t address);

/* Adds an address that is not there, and returns its position. */
uint32_t address_table_add(struct address_table *table, uint64_t address);
