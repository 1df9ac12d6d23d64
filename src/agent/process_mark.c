/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process_mark.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	NOT_OURS = 0,	  /* what a cleared page says */
	PID_UNKNOWN = -1, /* an adopted child that has not read its number yet */
	NEW_CHILD = -2,
	ADOPTING = -3,
};

typedef _Atomic pid_t mark_t;

static mark_t kept_by_fork;
static mark_t *mark;

static mark_t *map_page(void)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *const page =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return &kept_by_fork;
	if (madvise(page, size, MADV_WIPEONFORK) == 0)
		return page;
	munmap(page, size);
	return &kept_by_fork;
}

void process_mark_open(void)
{
	if (mark == NULL)
		mark = map_page();
}

void process_mark_set(void)
{
	atomic_store(mark, getpid());
}

FORK_HANDLER void process_mark_set_new_child(void)
{
	if (mark != NULL)
		atomic_store(mark, NEW_CHILD);
}

bool process_mark_is_new_child(void)
{
	return mark != NULL && atomic_load(mark) == NEW_CHILD;
}

bool process_mark_begin_child(void)
{
	pid_t state = NEW_CHILD;

	if (mark == NULL)
		return false;
	if (atomic_load(mark) == NEW_CHILD &&
		atomic_compare_exchange_strong(mark, &state, ADOPTING))
		return true;
	while (atomic_load(mark) == ADOPTING)
		sched_yield();
	return false;
}

void process_mark_end_child(void)
{
	atomic_store(mark, PID_UNKNOWN);
}

bool process_mark_is_ours(void)
{
	const pid_t pid = mark == NULL ? NOT_OURS : atomic_load(mark);

	if (pid == PID_UNKNOWN)
		atomic_store(mark, getpid());
	/* A child that shares all memory (CLONE_VM) sees the parent's mark. */
	return pid == PID_UNKNOWN || (pid > 0 && pid == getpid());
}
