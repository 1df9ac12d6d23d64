/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the process' live blocks were sampled: an exact set of their addresses, outside of the
 * blocks.
 *
 * Every free() of the process looks up its block, so a lookup is one load for a block that was not
 * sampled: no lock, no atomic exchange. Adding, removing and visiting happen under the caller's
 * lock, some thousands of times a second at most. The set grows into a new table that it publishes;
 * the pages of an old table are released after a second at least, but its addresses stay mapped,
 * because a free() may be reading it.
 *
 * A reader may see an old table: it finds there what was added before the new one was published,
 * and the holder of the lock decides. It cannot miss its own block: the program passed the address
 * to the freeing thread after it was added, which orders the two; and where a removal has moved
 * addresses meanwhile, the reader asks the holder of the lock.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

enum {
	LIVE_SLOTS_MIN = 4096, /* 4 KiB of filter: they stay in the cache of a busy thread */
};

/* What is remembered of a block. Times and amounts wrap around. */
struct live_block {
	uint64_t size; /* requested bytes */
	uint32_t site;
	uint32_t birth_ms;   /* of the monotonic clock */
	uint32_t birth_kib;  /* that its thread had allocated then */
	uint16_t thread;     /* sampler.c tells most threads apart by it */
	uint16_t generation; /* of the sites; it changes at each reset */
};

struct live_table {
	size_t slot_mask;	      /* how many slots there are, a power of two, less one */
	_Atomic uintptr_t *addresses; /* 0: free */
	uint32_t *numbers;	      /* of the blocks, by slot */
	/* By first slot, a bit for each eighth of the hashes there: most that ask need no more. */
	_Atomic uint8_t filter[];
};

struct live_set {
	_Atomic(struct live_table *) table; /* NULL before live_set_init */
	_Atomic uint32_t moves;		    /* of addresses; odd during one */
	struct live_table *previous;	    /* whose pages are still there; NULL: none */
	int64_t replaced_ms;		    /* when the current one took its place */
	size_t old_bytes;		    /* of tables before it that keep their pages */
	struct live_block *blocks;	    /* by number */
	size_t block_capacity;
	uint32_t number_end;  /* of the numbers that were in use */
	uint32_t free_number; /* the first of a list that `site` links */
	size_t count;	      /* blocks */
};

MUST_CHECK bool live_set_init(struct live_set *set);

/* Unmaps the tables. No thread may be in live_set_has(). */
void live_set_deinit(struct live_set *set);

/* Fibonacci hashing. */
static inline uint64_t live_hash(uintptr_t address)
{
	return (uint64_t)address * UINT64_C(0x9e3779b97f4a7c15);
}

/* Blocks are aligned to 16 bytes, so the lowest four bits say nothing. */
static inline size_t live_slot(const struct live_table *table, uint64_t hash)
{
	return (size_t)(hash >> 36) & table->slot_mask;
}

static inline unsigned live_bit(uint64_t hash)
{
	return (unsigned)(hash >> 61);
}

/* False: the block was not sampled. Any thread, no lock. */
static inline bool live_set_may_have(const struct live_set *set, const void *block)
{
	const struct live_table *const table =
		atomic_load_explicit(&set->table, memory_order_acquire);

	if (__builtin_expect(table == NULL, false))
		return false;
	const uint64_t hash = live_hash((uintptr_t)block);
	const unsigned bits =
		atomic_load_explicit(&table->filter[live_slot(table, hash)], memory_order_relaxed);
	return __builtin_expect((bits >> live_bit(hash) & 1) != 0, false);
}

/* Whether the block was sampled, or may have been: live_set_remove() says. Any thread, no lock. */
bool live_set_has(const struct live_set *set, const void *block);

/* False when there is no memory to grow; the set is as it was. Not for a block that is in it. */
MUST_CHECK bool live_set_add(struct live_set *set, const void *block, struct live_block what);

/* False when the block is not in it. */
bool live_set_remove(struct live_set *set, const void *block, struct live_block *what);

/* Calls `visit` with what is remembered of each block; it may change that. */
void live_set_visit(
	struct live_set *set, void (*visit)(void *context, struct live_block *what), void *context);

/* Forgets all blocks. */
void live_set_clear(struct live_set *set);

/* Gives back the pages of the table before the current one, if no thread can be in it any more. */
void live_set_trim(struct live_set *set);

/* Gives back what an empty set does not need. Does nothing to one that has blocks. */
void live_set_shrink(struct live_set *set);

/* Bytes of all memory that the set holds. */
size_t live_set_bytes(const struct live_set *set);
