/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a growing object takes its memory from.
 *
 * Code inside a server must not touch the heap that it profiles, so it uses pages mapped for
 * itself. The offline side uses the heap and ends the program when there is none. Tests use a
 * memory that fails at the N-th request.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory {
	/*
	 * Grows, shrinks, makes (block NULL, old_size 0) or releases (new_size 0) a block.
	 * Returns the block, whose first min(old_size, new_size) bytes are kept; NULL when
	 * released or when there is no memory, and then the old block is still valid.
	 */
	void *(*resize)(const struct memory *memory, void *block, size_t old_size, size_t new_size);
};

/* Whole pages from mmap; safe where malloc must not be called. Any thread. */
extern const struct memory memory_pages;

/*
 * The same, which a forked child does not inherit (MADV_DONTFORK): it starts again, with nothing
 * half-changed and nothing secret, and fork has less to copy. A child must not follow pointers into
 * it.
 */
extern const struct memory memory_private;

/* realloc(3); no memory is reported to the caller. Any thread. */
extern const struct memory memory_heap;

static inline void *memory_resize(
	const struct memory *memory, void *block, size_t old_size, size_t new_size)
{
	return memory->resize(memory, block, old_size, new_size);
}

/*
 * How many bytes all that share the budget may hold together. The large ones are refused first:
 * once three quarters are taken, only those that hold little get more. Any thread.
 */
struct byte_budget {
	uint64_t limit;
	uint64_t used; /* changed with atomic operations only */
	/* Makes a holder give bytes back; false when none does. NULL: none can. */
	bool (*reclaim)(struct byte_budget *budget, void *context);
	void *reclaim_context;
};

/* Takes `bytes` more for a holder of `held` bytes; false, with nothing taken, when the budget does
 * not allow it. */
static inline bool byte_budget_take(struct byte_budget *budget, uint64_t held, uint64_t bytes)
{
	const uint64_t limit =
		held + bytes > budget->limit / 16 ? budget->limit / 4 * 3 : budget->limit;

	do {
		if (__atomic_add_fetch(&budget->used, bytes, __ATOMIC_RELAXED) <= limit)
			return true;
		__atomic_sub_fetch(&budget->used, bytes, __ATOMIC_RELAXED);
	} while (held + bytes <= limit && budget->reclaim != NULL &&
		 budget->reclaim(budget, budget->reclaim_context));
	return false;
}

static inline void byte_budget_give(struct byte_budget *budget, uint64_t bytes)
{
	__atomic_sub_fetch(&budget->used, bytes, __ATOMIC_RELAXED);
}
