/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stacks.h"

#include <sys/wait.h>
#include <unistd.h>

#include "allocator_fake.h"
#include "unit.h"

static const struct settings defaults;

static void original(void **addresses, unsigned *count, unsigned max)
{
	(void)addresses;
	(void)max;
	*count = 0;
}

static void another(void **addresses, unsigned *count, unsigned max)
{
	original(addresses, count, max);
}

static void init(struct allocator_fake *fake)
{
	allocator_fake_init(fake);
	fake->backtrace = original;
	fake->allocator.profiling.has_unwinder_hook = true;
}

static void take_over_replaces_the_function_until_it_is_restored(void **state)
{
	struct allocator_fake fake;
	struct error err;
	void *addresses[64];
	unsigned count = 0;

	(void)state;
	init(&fake);
	assert_true(stacks_take_over(&fake.allocator, &err));
	assert_true(stacks_are_ours(&fake.allocator, &defaults));
	assert_ptr_not_equal(fake.backtrace, original);
	fake.backtrace(addresses, &count, 64);
	assert_in_range(count, 3, 63);
	/* A second call changes nothing. */
	assert_true(stacks_take_over(&fake.allocator, &err));
	stacks_give_back(&fake.allocator);
	assert_ptr_equal(fake.backtrace, original);
}

static void a_stack_has_no_more_frames_than_it_may(void **state)
{
	struct allocator_fake fake;
	struct error err;
	void *addresses[2] = { NULL, NULL };
	unsigned count = 0;

	(void)state;
	init(&fake);
	assert_true(stacks_take_over(&fake.allocator, &err));
	fake.backtrace(addresses, &count, 1);
	assert_int_equal(count, 1);
	assert_null(addresses[1]);
	stacks_give_back(&fake.allocator);
}

static void what_another_has_set_meanwhile_stays(void **state)
{
	struct allocator_fake fake;
	struct error err;

	(void)state;
	init(&fake);
	assert_true(stacks_take_over(&fake.allocator, &err));
	fake.backtrace = another;
	stacks_give_back(&fake.allocator);
	assert_ptr_equal(fake.backtrace, another);
}

static void without_a_hook_the_stacks_stay_the_allocators(void **state)
{
	struct allocator_fake fake;
	struct error err;

	(void)state;
	allocator_fake_init(&fake);
	assert_false(stacks_take_over(&fake.allocator, &err));
	assert_false(stacks_are_ours(&fake.allocator, &defaults));
	stacks_give_back(&fake.allocator);
	assert_null(fake.backtrace);
}

static void the_setting_keeps_the_allocators_stacks(void **state)
{
	const struct settings settings = { .jemalloc_stacks = true };
	struct allocator_fake fake;

	(void)state;
	init(&fake);
	assert_true(stacks_are_ours(&fake.allocator, &defaults));
	assert_false(stacks_are_ours(&fake.allocator, &settings));
}

static void a_child_walks_stacks_as_well(void **state)
{
	struct allocator_fake fake;
	struct error err;
	int status = 0;

	(void)state;
	init(&fake);
	assert_true(stacks_take_over(&fake.allocator, &err));
	const pid_t child = fork();
	if (child == 0) {
		void *addresses[64];
		unsigned count = 0;
		stacks_after_fork();
		fake.backtrace(addresses, &count, 64);
		_exit(count >= 3 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	stacks_give_back(&fake.allocator);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(take_over_replaces_the_function_until_it_is_restored),
	cmocka_unit_test(a_stack_has_no_more_frames_than_it_may),
	cmocka_unit_test(what_another_has_set_meanwhile_stays),
	cmocka_unit_test(without_a_hook_the_stacks_stay_the_allocators),
	cmocka_unit_test(the_setting_keeps_the_allocators_stacks),
	cmocka_unit_test(a_child_walks_stacks_as_well),
};
UNIT_MAIN(tests)
