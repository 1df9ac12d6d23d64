/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/work_budget.h"

#include <unistd.h>

static const uint64_t WORK_BASE = 1 << 20;
static const uint64_t WORK_PER_BYTE = 16;
static const uint64_t WORK_PER_ADDRESS = 4096;
static const uint64_t MAX_CHARGE = UINT64_C(1) << 48;

void work_budget_init(struct work_budget *budget)
{
	const uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);

	atomic_init(&budget->limit, WORK_BASE);
	atomic_init(&budget->used, 0);
	atomic_init(&budget->memory_bytes, 0);
	budget->memory_limit_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

void work_budget_allow_file(struct work_budget *budget, uint64_t bytes)
{
	atomic_fetch_add(&budget->limit, bytes * WORK_PER_BYTE);
}

void work_budget_allow_addresses(struct work_budget *budget, uint64_t count)
{
	atomic_fetch_add(&budget->limit, count * WORK_PER_ADDRESS);
}

bool work_budget_is_spent(const struct work_budget *budget)
{
	return atomic_load(&budget->used) > atomic_load(&budget->limit);
}

bool work_budget_spend(struct work_budget *budget, uint64_t work)
{
	const uint64_t charge = work < MAX_CHARGE ? work : MAX_CHARGE;

	/* Once it is spent it stays so, and does not wrap. */
	if (work_budget_is_spent(budget))
		return false;
	return atomic_fetch_add(&budget->used, charge) + charge <= atomic_load(&budget->limit);
}

bool work_budget_take_memory(struct work_budget *budget, uint64_t bytes)
{
	return atomic_fetch_add(&budget->memory_bytes, bytes) + bytes <= budget->memory_limit_bytes;
}
