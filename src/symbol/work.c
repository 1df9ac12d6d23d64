/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/work.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

struct task {
	parallel_work *work;
	void *context;
	size_t count;
	atomic_size_t next;
};

static void *take_pieces(void *argument)
{
	struct task *const task = argument;

	for (;;) {
		const size_t index = atomic_fetch_add(&task->next, 1);
		if (index >= task->count)
			return NULL;
		task->work(task->context, index);
	}
}

size_t parallel_thread_count(unsigned threads)
{
	cpu_set_t processors;
	size_t wanted = threads;

	if (wanted == 0 && sched_getaffinity(0, sizeof processors, &processors) == 0)
		wanted = (size_t)CPU_COUNT(&processors);
	if (wanted == 0)
		return 1;
	return wanted < PARALLEL_MAX_THREADS ? wanted : PARALLEL_MAX_THREADS;
}

void parallel_run(size_t count, unsigned threads, parallel_work *work, void *context)
{
	struct task task = { .work = work, .context = context, .count = count };
	pthread_t ids[PARALLEL_MAX_THREADS];
	pthread_attr_t attributes;
	size_t started = 0;

	if (count == 0)
		return;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PARALLEL_STACK_BYTES);
	const size_t allowed = parallel_thread_count(threads);
	const size_t wanted = allowed < count ? allowed : count;
	while (started < wanted &&
		pthread_create(&ids[started], &attributes, take_pieces, &task) == 0)
		started++;
	pthread_attr_destroy(&attributes);
	/* A system that allows no threads at all still gets its answers. */
	if (started == 0)
		take_pieces(&task);
	for (size_t i = 0; i < started; i++)
		pthread_join(ids[i], NULL);
}

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
