/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MAX_THREADS = 64 };

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

static size_t thread_count(size_t count, unsigned threads)
{
	cpu_set_t processors;
	size_t wanted = threads;

	if (wanted == 0 && sched_getaffinity(0, sizeof processors, &processors) == 0)
		wanted = (size_t)CPU_COUNT(&processors);
	if (wanted > MAX_THREADS)
		wanted = MAX_THREADS;
	return wanted < count ? wanted : count;
}

void parallel_run(size_t count, unsigned threads, parallel_work *work, void *context)
{
	struct task task = { .work = work, .context = context, .count = count };
	pthread_t ids[MAX_THREADS];
	pthread_attr_t attributes;
	size_t started = 0;

	if (count == 0)
		return;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PARALLEL_STACK_BYTES);
	const size_t wanted = thread_count(count, threads);
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
