/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/live_set.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

static const uint32_t no_number = UINT32_MAX;

static size_t table_bytes(size_t slot_count)
{
	return sizeof(struct live_table) +
	       slot_count *
		       (sizeof(_Atomic uint8_t) + sizeof(_Atomic uintptr_t) + sizeof(uint32_t));
}

/* Not from base/memory.h: the addresses have to be zero, which new pages are. */
static struct live_table *table_new(size_t slot_count)
{
	struct live_table *const table = mmap(NULL, table_bytes(slot_count), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (table == MAP_FAILED)
		return NULL;
	table->slot_mask = slot_count - 1;
	char *const behind_filter = (char *)table + sizeof *table + slot_count;
	table->addresses = (_Atomic uintptr_t *)(void *)behind_filter;
	table->numbers =
		(uint32_t *)(void *)(behind_filter + slot_count * sizeof table->addresses[0]);
	return table;
}

static size_t slot_count_of(const struct live_table *table)
{
	return table->slot_mask + 1;
}

bool live_set_init(struct live_set *set)
{
	struct live_table *const table = table_new(LIVE_SLOTS_MIN);

	if (table == NULL)
		return false;
	set->previous = NULL;
	set->old_bytes = 0;
	set->blocks = NULL;
	set->block_capacity = 0;
	set->number_end = 0;
	set->free_number = no_number;
	set->count = 0;
	atomic_store_explicit(&set->moves, 0, memory_order_relaxed);
	atomic_store_explicit(&set->table, table, memory_order_release);
	return true;
}

void live_set_deinit(struct live_set *set)
{
	struct live_table *const table = atomic_exchange(&set->table, NULL);

	if (table != NULL)
		munmap(table, table_bytes(slot_count_of(table)));
	if (set->previous != NULL)
		munmap(set->previous, table_bytes(slot_count_of(set->previous)));
	set->previous = NULL;
	memory_resize(&memory_pages, set->blocks, set->block_capacity * sizeof *set->blocks, 0);
	set->blocks = NULL;
	set->block_capacity = 0;
}

static struct live_table *current(const struct live_set *set)
{
	return atomic_load_explicit(&set->table, memory_order_relaxed);
}

static uintptr_t address_at(const struct live_table *table, size_t slot)
{
	return atomic_load_explicit(&table->addresses[slot], memory_order_relaxed);
}

static size_t next(const struct live_table *table, size_t slot)
{
	return (slot + 1) & table->slot_mask;
}

static size_t first_slot(const struct live_table *table, uintptr_t address)
{
	return live_slot(table, live_hash(address));
}

bool live_set_has(const struct live_set *set, const void *block)
{
	if (!live_set_may_have(set, block))
		return false;
	const struct live_table *const table =
		atomic_load_explicit(&set->table, memory_order_acquire);
	const uint32_t moves = atomic_load_explicit(&set->moves, memory_order_acquire);
	for (size_t slot = first_slot(table, (uintptr_t)block);; slot = next(table, slot)) {
		const uintptr_t address =
			atomic_load_explicit(&table->addresses[slot], memory_order_acquire);
		if (address == (uintptr_t)block)
			return true;
		/* Every move stores addresses after `moves`, with release order. */
		if (address == 0)
			return (moves & 1) != 0 ||
			       atomic_load_explicit(&set->moves, memory_order_relaxed) != moves;
	}
}

/* The block's slot, or the empty one where its chain ends. */
static size_t find(const struct live_table *table, uintptr_t address)
{
	size_t slot = first_slot(table, address);

	while (address_at(table, slot) != 0 && address_at(table, slot) != address)
		slot = next(table, slot);
	return slot;
}

static void put(struct live_table *table, size_t slot, uintptr_t address, uint32_t number)
{
	const uint64_t hash = live_hash(address);
	_Atomic uint8_t *const filter = &table->filter[live_slot(table, hash)];

	table->numbers[slot] = number;
	/* Release: a reader that finds the address in a new table finds the table complete. */
	atomic_store_explicit(&table->addresses[slot], address, memory_order_release);
	atomic_store_explicit(filter,
		(uint8_t)(atomic_load_explicit(filter, memory_order_relaxed) |
			  1U << live_bit(hash)),
		memory_order_release);
}

/* After a block with this hash was removed: others of the same first slot may have its bit. */
static void clear_bit(struct live_table *table, uint64_t hash)
{
	const size_t first = live_slot(table, hash);
	uint8_t bits = 0;

	for (size_t slot = first; address_at(table, slot) != 0; slot = next(table, slot)) {
		const uint64_t other = live_hash(address_at(table, slot));
		if (live_slot(table, other) == first)
			bits |= (uint8_t)(1U << live_bit(other));
	}
	atomic_store_explicit(&table->filter[first], bits, memory_order_relaxed);
}

/*
 * Empties a slot: addresses behind it that would not be found any more move forward, one by one
 * (Knuth, The Art of Computer Programming, volume 3, 6.4, algorithm R).
 */
static void empty_slot(struct live_set *set, struct live_table *table, size_t empty)
{
	const size_t mask = table->slot_mask;

	atomic_fetch_add_explicit(&set->moves, 1, memory_order_relaxed);
	for (size_t slot = next(table, empty); address_at(table, slot) != 0;
		slot = next(table, slot)) {
		const size_t first = first_slot(table, address_at(table, slot));
		if (((slot - first) & mask) < ((slot - empty) & mask))
			continue;
		table->numbers[empty] = table->numbers[slot];
		atomic_store_explicit(
			&table->addresses[empty], address_at(table, slot), memory_order_release);
		empty = slot;
	}
	atomic_store_explicit(&table->addresses[empty], 0, memory_order_release);
	atomic_fetch_add_explicit(&set->moves, 1, memory_order_release);
}

void live_set_trim(struct live_set *set)
{
	enum { GRACE_MS = 1000 };
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (set->previous == NULL || clock_monotonic_ms() - set->replaced_ms < GRACE_MS)
		return;
	const size_t bytes = table_bytes(slot_count_of(set->previous));
	/*
	 * A reader that is still in it finds it empty. The first page says how many slots there
	 * are. Not by madvise, which a sandbox of the program may not know from its malloc.
	 */
	if (bytes > page)
		(void)mmap((char *)set->previous + page, bytes - page, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	set->old_bytes += page;
	set->previous = NULL;
}

/*
 * Where the set grows so fast that a thread may have been waiting for a processor since the growth
 * before, the pages of that one's table stay.
 */
static void retire(struct live_set *set, struct live_table *table)
{
	live_set_trim(set);
	if (set->previous != NULL)
		set->old_bytes += table_bytes(slot_count_of(set->previous));
	set->previous = table;
	set->replaced_ms = clock_monotonic_ms();
}

static bool replace_table(struct live_set *set, size_t slot_count)
{
	struct live_table *const old = current(set);
	struct live_table *const table = table_new(slot_count);

	if (table == NULL)
		return false;
	for (size_t slot = 0; slot < slot_count_of(old); slot++) {
		const uintptr_t address = address_at(old, slot);
		if (address != 0)
			put(table, find(table, address), address, old->numbers[slot]);
	}
	atomic_store_explicit(&set->table, table, memory_order_release);
	retire(set, old);
	return true;
}

static void free_number(struct live_set *set, uint32_t number)
{
	set->blocks[number].site = set->free_number;
	set->free_number = number;
}

static bool grow_blocks(struct live_set *set)
{
	enum { BLOCKS_MIN = 1024 };
	const size_t capacity = set->block_capacity == 0 ? BLOCKS_MIN : set->block_capacity / 2 * 3;
	struct live_block *const blocks =
		memory_resize(&memory_pages, NULL, 0, capacity * sizeof *blocks);

	if (blocks == NULL)
		return false;
	if (set->block_capacity > 0)
		memcpy(blocks, set->blocks, set->block_capacity * sizeof *blocks);
	memory_resize(&memory_pages, set->blocks, set->block_capacity * sizeof *blocks, 0);
	set->blocks = blocks;
	set->block_capacity = capacity;
	return true;
}

/* Numbers that were never in use follow one after the other: their pages are not touched before. */
static bool take_number(struct live_set *set, uint32_t *number)
{
	if (set->free_number != no_number) {
		*number = set->free_number;
		set->free_number = set->blocks[*number].site;
		return true;
	}
	if (set->number_end == set->block_capacity && !grow_blocks(set))
		return false;
	*number = set->number_end++;
	return true;
}

bool live_set_add(struct live_set *set, const void *block, struct live_block what)
{
	const size_t slot_count = slot_count_of(current(set));
	uint32_t number = 0;

	/* At most five eighths of the slots are in use, so chains stay short. */
	if (set->count >= slot_count / 8 * 5 && !replace_table(set, 2 * slot_count))
		return false;
	if (!take_number(set, &number))
		return false;
	struct live_table *const table = current(set);
	set->blocks[number] = what;
	set->count++;
	put(table, find(table, (uintptr_t)block), (uintptr_t)block, number);
	return true;
}

bool live_set_remove(struct live_set *set, const void *block, struct live_block *what)
{
	struct live_table *const table = current(set);
	const size_t slot = find(table, (uintptr_t)block);

	if (address_at(table, slot) == 0)
		return false;
	*what = set->blocks[table->numbers[slot]];
	free_number(set, table->numbers[slot]);
	set->count--;
	empty_slot(set, table, slot);
	clear_bit(table, live_hash((uintptr_t)block));
	return true;
}

void live_set_visit(
	struct live_set *set, void (*visit)(void *context, struct live_block *what), void *context)
{
	const struct live_table *const table = current(set);

	for (size_t slot = 0; slot < slot_count_of(table); slot++) {
		if (address_at(table, slot) != 0)
			visit(context, &set->blocks[table->numbers[slot]]);
	}
}

void live_set_clear(struct live_set *set)
{
	struct live_table *const table = current(set);

	for (size_t slot = 0; slot < slot_count_of(table); slot++) {
		if (address_at(table, slot) != 0)
			atomic_store_explicit(&table->addresses[slot], 0, memory_order_relaxed);
		atomic_store_explicit(&table->filter[slot], 0, memory_order_relaxed);
	}
	set->count = 0;
	set->number_end = 0;
	set->free_number = no_number;
}

void live_set_shrink(struct live_set *set)
{
	if (set->count > 0)
		return;
	memory_resize(&memory_pages, set->blocks, set->block_capacity * sizeof *set->blocks, 0);
	set->blocks = NULL;
	set->block_capacity = 0;
	set->number_end = 0;
	set->free_number = no_number;
	if (slot_count_of(current(set)) > LIVE_SLOTS_MIN && !replace_table(set, LIVE_SLOTS_MIN)) {
		/* Without memory for a small table the large one stays. */
	}
}

size_t live_set_bytes(const struct live_set *set)
{
	const struct live_table *const table = current(set);
	size_t bytes = set->old_bytes + set->block_capacity * sizeof *set->blocks;

	if (table != NULL)
		bytes += table_bytes(slot_count_of(table));
	if (set->previous != NULL)
		bytes += table_bytes(slot_count_of(set->previous));
	return bytes;
}
