/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loader_use.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit.h"

/* The limit of a wait; more forks than a busy machine delays as long; and children likewise. */
enum { LIMIT_MS = 1000, FORKS = 20, CHILDREN = 10, YIELDS = 100 };

static _Atomic bool is_about_to_wait, has_ended, came_too_early;

/* On a busy machine the limit may come before the end. */
static void note_whether_it_waited(int64_t begin_ms)
{
	atomic_store(&came_too_early,
		!atomic_load(&has_ended) && clock_monotonic_ms() - begin_ms < LIMIT_MS);
}

static void *fork_beside(void *ignored)
{
	const int64_t begin_ms = clock_monotonic_ms();

	atomic_store(&is_about_to_wait, true);
	loader_use_before_fork();
	note_whether_it_waited(begin_ms);
	loader_use_after_fork();
	return ignored;
}

static void *call_beside(void *ignored)
{
	const int64_t begin_ms = clock_monotonic_ms();

	atomic_store(&is_about_to_wait, true);
	loader_use_begin();
	note_whether_it_waited(begin_ms);
	loader_use_end();
	return ignored;
}

/* `end` ends what `beside` has to wait for. */
static void check_it_waits(void *(*beside)(void *), void (*end)(void))
{
	pthread_t thread;

	atomic_store(&is_about_to_wait, false);
	atomic_store(&has_ended, false);
	assert_int_equal(pthread_create(&thread, NULL, beside, NULL), 0);
	while (!atomic_load(&is_about_to_wait))
		sched_yield();
	for (int i = 0; i < YIELDS; i++)
		sched_yield();
	atomic_store(&has_ended, true);
	end();
	pthread_join(thread, NULL);
	assert_false(atomic_load(&came_too_early));
}

static void makes_a_fork_wait_for_a_call(void **state)
{
	(void)state;
	loader_use_begin();
	loader_use_begin();
	loader_use_end();
	check_it_waits(fork_beside, loader_use_end);
}

static void makes_a_call_wait_for_a_fork(void **state)
{
	(void)state;
	loader_use_before_fork();
	assert_false(loader_use_try_begin());
	check_it_waits(call_beside, loader_use_after_fork);
	assert_true(loader_use_try_begin());
	loader_use_end();
}

/* A program may fork where the agent's call waits for that very thread. */
static void waits_once_where_neither_can_go_on(void **state)
{
	(void)state;
	const int64_t begin_ms = clock_monotonic_ms();
	loader_use_begin();
	for (int i = 0; i < FORKS; i++)
		loader_use_before_fork();
	const int64_t waited_ms = clock_monotonic_ms() - begin_ms;
	assert_in_range(waited_ms, LIMIT_MS, FORKS * LIMIT_MS - 1);
	for (int i = 0; i < FORKS; i++)
		loader_use_after_fork();
	loader_use_end();
	makes_a_fork_wait_for_a_call(state);
	makes_a_call_wait_for_a_fork(state);
}

/* The calls are the parent's. */
static bool child_waits(void)
{
	int status = 0;
	const pid_t child = fork();

	if (child == 0) {
		const int64_t begin_ms = clock_monotonic_ms();
		loader_use_after_fork_in_child();
		loader_use_before_fork();
		_exit(clock_monotonic_ms() - begin_ms >= LIMIT_MS);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status != 0;
}

static void leaves_a_child_nothing_to_wait_for(void **state)
{
	int slow = 0;

	(void)state;
	if (unit_is_emulated())
		skip_because("the emulator ignores MADV_WIPEONFORK");
	loader_use_begin();
	while (slow < CHILDREN && child_waits())
		slow++;
	loader_use_end();
	assert_int_not_equal(slow, CHILDREN);
}

static int open_page(void **state)
{
	(void)state;
	loader_use_open();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(makes_a_fork_wait_for_a_call),
	cmocka_unit_test(leaves_a_child_nothing_to_wait_for),
	cmocka_unit_test_setup(makes_a_fork_wait_for_a_call, open_page),
	cmocka_unit_test(makes_a_call_wait_for_a_fork),
	cmocka_unit_test(waits_once_where_neither_can_go_on),
	cmocka_unit_test(leaves_a_child_nothing_to_wait_for),
};
UNIT_MAIN(tests)
