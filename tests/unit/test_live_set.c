/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/live_set.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { ADDRESSES = 20000 };

static void *block_at(size_t number)
{
	return (void *)(UINT64_C(0x7f0000000000) + number * 16);
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Against an array that says which blocks are in it. */
static void it_is_exact_whatever_is_added_and_removed(void **state)
{
	static bool is_in[ADDRESSES];
	struct live_set set;
	struct live_block was;
	uint32_t random = 7;
	size_t count = 0;

	(void)state;
	assert_true(live_set_init(&set));
	for (int turn = 0; turn < 400000; turn++) {
		/* Long phases of growing and of shrinking. */
		const bool adds = next_random(&random) % 100 < (turn / 50000 % 2 == 0 ? 70 : 30);
		const size_t number = next_random(&random) % ADDRESSES;
		if (adds && !is_in[number]) {
			assert_true(live_set_add(&set, block_at(number),
				(struct live_block){ .size = number, .site = (uint32_t)turn }));
			is_in[number] = true;
			count++;
		} else if (!adds) {
			assert_int_equal(live_set_has(&set, block_at(number)), is_in[number]);
			assert_int_equal(
				live_set_remove(&set, block_at(number), &was), is_in[number]);
			if (is_in[number])
				assert_int_equal(was.size, number);
			count -= is_in[number];
			is_in[number] = false;
		}
		assert_int_equal(set.count, count);
	}
	for (size_t number = 0; number < ADDRESSES; number++)
		assert_int_equal(live_set_has(&set, block_at(number)), is_in[number]);
	live_set_deinit(&set);
}

static size_t count_filter_bits(const struct live_set *set)
{
	const struct live_table *const table = atomic_load(&set->table);
	size_t bits = 0;

	for (size_t slot = 0; slot < table->slot_count; slot++)
		bits += (size_t)__builtin_popcount(atomic_load(&table->filter[slot]));
	return bits;
}

/* Blocks that come and go must not fill the table, and its filter, with what is left of them. */
static void removed_blocks_leave_no_slots_behind(void **state)
{
	struct live_set set;
	struct live_block was;

	(void)state;
	assert_true(live_set_init(&set));
	assert_true(live_set_add(&set, block_at(0), (struct live_block){ 0 }));
	const size_t bytes = live_set_bytes(&set);
	for (size_t turn = 1; turn < 1000000; turn++) {
		assert_true(live_set_add(&set, block_at(turn), (struct live_block){ 0 }));
		if (turn >= 201)
			assert_true(live_set_remove(&set, block_at(turn - 200), &was));
	}
	assert_int_equal(live_set_bytes(&set), bytes);
	assert_in_range(count_filter_bits(&set), 1, set.count);
	live_set_clear(&set);
	assert_int_equal(count_filter_bits(&set), 0);
	assert_int_equal(set.count, 0);
	assert_false(live_set_has(&set, block_at(999999)));
	live_set_deinit(&set);
}

static void no_block_is_in_an_empty_set(void **state)
{
	struct live_set set = { .table = NULL };

	(void)state;
	assert_false(live_set_has(&set, NULL));
	assert_false(live_set_has(&set, block_at(1)));
	assert_true(live_set_init(&set));
	assert_false(live_set_has(&set, NULL));
	live_set_deinit(&set);
}

struct readers {
	struct live_set set;
	_Atomic bool is_done;
	_Atomic size_t missed;
};

/* Blocks 0 to 99 are always in the set, while others make it grow. */
static void *look(void *context)
{
	struct readers *const readers = context;

	while (!atomic_load(&readers->is_done)) {
		for (size_t number = 0; number < 100; number++)
			atomic_fetch_add(
				&readers->missed, !live_set_has(&readers->set, block_at(number)));
	}
	return NULL;
}

static void readers_find_what_is_in_it_while_it_grows(void **state)
{
	struct readers readers = { .set = { .table = NULL } };
	struct live_block was;
	pthread_t threads[2];

	(void)state;
	assert_true(live_set_init(&readers.set));
	for (size_t number = 0; number < 100; number++)
		assert_true(live_set_add(&readers.set, block_at(number), (struct live_block){ 0 }));
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, &readers), 0);
	for (size_t number = 100; number < 40000; number++) {
		assert_true(live_set_add(&readers.set, block_at(number), (struct live_block){ 0 }));
		if (number % 3 == 0)
			assert_true(live_set_remove(&readers.set, block_at(number - 1), &was));
	}
	atomic_store(&readers.is_done, true);
	for (size_t i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(readers.missed, 0);
	live_set_deinit(&readers.set);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(no_block_is_in_an_empty_set),
	cmocka_unit_test(it_is_exact_whatever_is_added_and_removed),
	cmocka_unit_test(removed_blocks_leave_no_slots_behind),
	cmocka_unit_test(readers_find_what_is_in_it_while_it_grows),
};

UNIT_MAIN(tests)
