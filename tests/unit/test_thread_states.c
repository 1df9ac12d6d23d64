/* SPDX-License-Identifier: Apache-2.0 */
/* Of the agent for static programs. */
#define HEAPCTL_STATIC_IMAGE
#include "sampler/thread_states.h"

#include <pthread.h>

#include "unit.h"

static void *find(void *number)
{
	struct sampler_thread *const own = sampler_thread_find();

	*thread_states_errno() = *(int *)number;
	own->countdown = *(int *)number;
	return own;
}

static void each_thread_has_its_own(void **state)
{
	struct sampler_thread *const own = sampler_thread_find();
	pthread_t thread;
	void *other = NULL;
	int number = 7;

	(void)state;
	own->countdown = 5;
	*thread_states_errno() = 3;
	assert_int_equal(pthread_create(&thread, NULL, find, &number), 0);
	assert_int_equal(pthread_join(thread, &other), 0);
	assert_ptr_not_equal(other, own);
	assert_ptr_equal(sampler_thread_find(), own);
	assert_int_equal(own->countdown, 5);
	assert_int_equal(*thread_states_errno(), 3);
}

static void *wait_for_others(void *barrier)
{
	struct sampler_thread *const own = sampler_thread_find();

	pthread_barrier_wait(barrier);
	return own == sampler_thread_find() ? own : NULL;
}

static void threads_at_once_have_different_ones(void **state)
{
	enum { THREADS = 64 };
	pthread_t threads[THREADS];
	void *found[THREADS];
	pthread_barrier_t barrier;

	(void)state;
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_others, &barrier), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &found[i]), 0);
		assert_non_null(found[i]);
		for (int k = 0; k < i; k++)
			assert_ptr_not_equal(found[i], found[k]);
	}
	pthread_barrier_destroy(&barrier);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(each_thread_has_its_own),
	cmocka_unit_test(threads_at_once_have_different_ones),
};

UNIT_MAIN(tests)
