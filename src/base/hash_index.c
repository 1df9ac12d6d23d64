/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/xalloc.h"

enum { FIRST_SLOTS = 64 };

void hash_index_init(struct hash_index *index)
{
	*index = (struct hash_index){ 0 };
}

void hash_index_deinit(struct hash_index *index)
{
	free(index->slots);
	hash_index_init(index);
}

/*
 * A slot is chosen by the same 32 bits that it keeps as its tag, so that growing needs no key.
 */
static uint32_t tag_of(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}

static struct hash_index_slot *make_slots(size_t count)
{
	struct hash_index_slot *const slots = xmalloc_huge(count * sizeof *slots);

	for (size_t i = 0; i < count; i++)
		slots[i] = (struct hash_index_slot){ .position = HASH_INDEX_NONE };
	return slots;
}

static void grow(struct hash_index *index)
{
	const size_t old_count = index->slots == NULL ? 0 : (size_t)index->mask + 1;
	const size_t count = old_count == 0 ? FIRST_SLOTS : 2 * old_count;
	struct hash_index_slot *const slots = make_slots(count);
	const uint32_t mask = (uint32_t)(count - 1);

	for (size_t i = 0; i < old_count; i++) {
		if (index->slots[i].position == HASH_INDEX_NONE)
			continue;
		uint32_t at = index->slots[i].tag & mask;
		while (slots[at].position != HASH_INDEX_NONE)
			at = (at + 1) & mask;
		slots[at] = index->slots[i];
	}
	free(index->slots);
	index->slots = slots;
	index->mask = mask;
}

/* The slot that holds the key, or the free one where it would go. */
static struct hash_index_slot *probe(const struct hash_index *index, uint64_t hash,
	hash_index_equal *equal, const void *items, const void *key)
{
	const uint32_t tag = tag_of(hash);

	for (uint32_t at = tag & index->mask;; at = (at + 1) & index->mask) {
		struct hash_index_slot *const slot = &index->slots[at];
		if (slot->position == HASH_INDEX_NONE)
			return slot;
		if (slot->tag == tag && equal(items, slot->position, key))
			return slot;
	}
}

uint32_t hash_index_find(const struct hash_index *index, uint64_t hash, hash_index_equal *equal,
	const void *items, const void *key)
{
	if (index->slots == NULL)
		return HASH_INDEX_NONE;
	return probe(index, hash, equal, items, key)->position;
}

uint32_t hash_index_add(struct hash_index *index, uint64_t hash, hash_index_equal *equal,
	const void *items, const void *key, uint32_t position)
{
	if (index->slots == NULL || index->used >= index->mask / 2)
		grow(index);

	struct hash_index_slot *const slot = probe(index, hash, equal, items, key);
	if (slot->position != HASH_INDEX_NONE)
		return slot->position;
	*slot = (struct hash_index_slot){ .position = position, .tag = tag_of(hash) };
	index->used++;
	return HASH_INDEX_NONE;
}

uint64_t hash_seed(void)
{
	uint64_t seed = 0;

	/* Early in boot there may be no random numbers. */
	if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
		seed = (uintptr_t)&seed;
	return seed;
}

uint64_t hash_keys[2] = { 0x9e3779b97f4a7c15u, 0xd6e8feb86659fd93u };

static __attribute__((constructor)) void choose_keys(void)
{
	hash_keys[0] ^= hash_seed();
	/* A factor with few bits would not spread. */
	hash_keys[1] =
		(hash_fixed_u64(hash_seed()) & ~(UINT64_C(0xff) << 56)) | UINT64_C(0xd6) << 56 | 1;
}

/*
 * Two words for each multiplication, because each waits for the one before. `other` is secret, so
 * no input can make a factor zero. The last words may overlap those before them: the size is in the
 * hash already.
 */
static uint64_t mix_bytes(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *const bytes = data; /* may be NULL when there are none */
	const uint64_t other = hash_fixed_u64(~hash);
	uint64_t words[2] = { 0 };

	for (size_t at = 0; at + sizeof words < size; at += sizeof words) {
		memcpy(words, bytes + at, sizeof words);
		hash = hash_product(hash ^ words[0], other ^ words[1]);
	}
	if (size >= sizeof words)
		memcpy(words, bytes + size - sizeof words, sizeof words);
	else if (size != 0)
		memcpy(words, bytes, size);
	return hash_fixed_u64(hash_product(hash ^ words[0], other ^ words[1]));
}

uint64_t hash_fixed_bytes(const void *data, size_t size)
{
	return mix_bytes(hash_fixed_u64(size), data, size);
}

uint64_t hash_bytes(const void *data, size_t size)
{
	return mix_bytes(hash_u64(size), data, size);
}

uint64_t hash_bytes_seeded(uint64_t seed, const void *data, size_t size)
{
	return mix_bytes(hash_combine(seed, size), data, size);
}

enum { FIRST_TABLE_SLOTS = 1024 };

/* The slot of the key, or the free one where it would go. */
static uint32_t *find_slot(const struct u64_table *table, uint64_t key)
{
	size_t at = (size_t)(u64_table_pair(table, key) - table->slots);

	while (table->slots[at] != 0 && table->keys[table->slots[at]] != key)
		at = (at + 1) & table->mask;
	return &table->slots[at];
}

static void set_slots(struct u64_table *table, size_t count)
{
	free(table->slots);
	table->slots = xcalloc(count, sizeof *table->slots);
	table->mask = (uint32_t)(count - 1);
	table->pairs = table->mask & ~UINT32_C(1);
	for (size_t i = 1; i < table->count; i++)
		*find_slot(table, table->keys[i]) = (uint32_t)i;
}

void u64_table_init(struct u64_table *table, uint64_t seed)
{
	*table = (struct u64_table){ .factor = seed | 1 };
	set_slots(table, FIRST_TABLE_SLOTS);
}

void u64_table_deinit(struct u64_table *table)
{
	free(table->slots);
	free(table->keys);
	*table = (struct u64_table){ 0 };
}

uint32_t u64_table_find(const struct u64_table *table, uint64_t key)
{
	if (table->count == 0)
		return U64_TABLE_NONE;
	const uint32_t position = *find_slot(table, key);
	return table->keys[position] == key ? position : U64_TABLE_NONE;
}

uint32_t u64_table_add(struct u64_table *table, uint64_t key)
{
	const uint32_t position = (uint32_t)table->count;

	*XAPPEND(table->keys, table->count, table->capacity) = key;
	if (table->count > table->mask / 2)
		set_slots(table, 2 * ((size_t)table->mask + 1));
	else
		*find_slot(table, key) = position;
	return position;
}
