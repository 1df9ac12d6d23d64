/* SPDX-License-Identifier: Apache-2.0 */
/* The work of finding symbols: how it is spread over threads, and what limits it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PARALLEL_MAX_THREADS = 64,
	PARALLEL_STACK_BYTES = 64 << 20, /* of each thread: demangling recurses deeply */
};

typedef void parallel_work(void *context, size_t index);

/*
 * Independent pieces of work on several threads. Pieces are started in order, one at a time, so put
 * the big ones first; results must not depend on the thread.
 *
 * Calls work(context, i) for every i below count and returns when all are done. At most `threads`
 * run at once (0: as many as there are processors). Even a single piece runs on a thread of its
 * own.
 */
void parallel_run(size_t count, unsigned threads, parallel_work *work, void *context);

/* How many threads that are at most, for work that they divide themselves. */
size_t parallel_thread_count(unsigned threads);

/*
 * Limits the work that the files of a module may cause. Files are input, and a small one can be
 * made so that reading it takes forever: lists that all units share, texts that all frames share.
 * All work that is done more than once for a byte of a file, or once for each address, is charged
 * here, and stops when the budget is spent. The limit grows with the files and the addresses; it is
 * far beyond what compilers' files take, which tests/unit/test_dwarf.c and
 * tests/integration/test_symbol.py check.
 *
 * A unit of work is about what it takes to read a byte of a line program. Any thread.
 */
struct work_budget {
	atomic_ullong limit;
	atomic_ullong used;	    /* may exceed the limit: refused work is counted, too */
	atomic_ullong memory_bytes; /* of what was unpacked and is kept */
	uint64_t memory_limit_bytes;
};

void work_budget_init(struct work_budget *budget);

/* For contents of this size, and for this many addresses. */
void work_budget_allow_file(struct work_budget *budget, uint64_t bytes);
void work_budget_allow_addresses(struct work_budget *budget, uint64_t count);

/* False when it is more than is left; then everything that follows is, too. */
bool work_budget_spend(struct work_budget *budget, uint64_t work);
bool work_budget_is_spent(const struct work_budget *budget);

enum { WORK_BATCH = 256 };

/* The same for many small pieces of work: `pending` counts them, and a batch is charged at once. */
static inline bool work_budget_spend_batched(
	struct work_budget *budget, uint64_t *pending, uint64_t work)
{
	*pending += work;
	if (__builtin_expect(*pending < WORK_BATCH, true))
		return true;
	const uint64_t batch = *pending;
	*pending = 0;
	return work_budget_spend(budget, batch);
}

/* Charges memory that is kept. False when it would exceed the limit. */
bool work_budget_take_memory(struct work_budget *budget, uint64_t bytes);
