/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes may be held at a time by all that share a budget. What is large gives way first:
 * once three quarters are taken, only those with little of it get more. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct byte_budget {
	uint64_t limit;
	uint64_t used; /* changed with atomic operations only */
};

/* Takes `bytes` more for one who has `held` already; false, and nothing taken, when it may not. */
static inline bool byte_budget_take(struct byte_budget *budget, uint64_t held, uint64_t bytes)
{
	const uint64_t used = __atomic_add_fetch(&budget->used, bytes, __ATOMIC_RELAXED);
	const uint64_t limit =
		held + bytes > budget->limit / 16 ? budget->limit / 4 * 3 : budget->limit;

	if (used <= limit)
		return true;
	__atomic_sub_fetch(&budget->used, bytes, __ATOMIC_RELAXED);
	return false;
}

static inline void byte_budget_give(struct byte_budget *budget, uint64_t bytes)
{
	__atomic_sub_fetch(&budget->used, bytes, __ATOMIC_RELAXED);
}
