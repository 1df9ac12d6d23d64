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

	for (size_t slot = 0; slot <= table->slot_mask; slot++)
		bits += (size_t)__builtin_popcount(atomic_load(&table->filter[slot]));
	return bits;
}

/* Removed blocks must leave nothing in the table and its filter. */
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

static void ten_thousand_blocks_that_come_and_go_need_little_memory(void **state)
{
	enum { LIVE = 10000, TURNS = 500000, BYTES_MAX = 700 * 1024 };
	static size_t numbers[LIVE];
	struct live_set set;
	struct live_block was;
	uint32_t random = 3;
	size_t fresh = 0;

	(void)state;
	assert_true(live_set_init(&set));
	for (int turn = 0; turn < LIVE + TURNS; turn++) {
		const size_t at = turn < LIVE ? (size_t)turn : next_random(&random) % (size_t)LIVE;
		if (turn >= LIVE)
			assert_true(live_set_remove(&set, block_at(numbers[at]), &was));
		numbers[at] = fresh;
		fresh += 1 + next_random(&random) % 64;
		assert_true(live_set_add(&set, block_at(numbers[at]), (struct live_block){ 0 }));
		if (turn >= LIVE / 2)
			assert_true(live_set_bytes(&set) <= BYTES_MAX);
	}
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

enum { NEIGHBOURS = 40 };

struct chain {
	struct live_set set;
	void *blocks[NEIGHBOURS]; /* of nearly one hash */
	_Atomic bool is_done;
	_Atomic size_t missed, looks;
};

/* Every second one is always in the set. */
static void *look_in_chain(void *context)
{
	struct chain *const chain = context;

	while (!atomic_load(&chain->is_done)) {
		for (size_t i = 0; i < NEIGHBOURS; i += 2)
			atomic_fetch_add(
				&chain->missed, !live_set_has(&chain->set, chain->blocks[i]));
		atomic_fetch_add(&chain->looks, 1);
	}
	return NULL;
}

static void readers_find_what_a_removal_moves(void **state)
{
	enum { LOOKS = 20000 };
	static struct chain chain;
	struct live_block was;
	pthread_t thread;
	size_t found = 0;

	(void)state;
	assert_true(live_set_init(&chain.set));
	for (size_t number = 0; found < NEIGHBOURS; number++) {
		const uint64_t hash = live_hash((uintptr_t)block_at(number));
		if (live_slot(atomic_load(&chain.set.table), hash) / 4 == 25)
			chain.blocks[found++] = block_at(number);
	}
	for (size_t i = 0; i < NEIGHBOURS; i++)
		assert_true(live_set_add(&chain.set, chain.blocks[i], (struct live_block){ 0 }));
	assert_int_equal(pthread_create(&thread, NULL, look_in_chain, &chain), 0);
	while (atomic_load(&chain.looks) < LOOKS) {
		for (size_t i = 1; i < NEIGHBOURS; i += 2)
			assert_true(live_set_remove(&chain.set, chain.blocks[i], &was));
		for (size_t i = 1; i < NEIGHBOURS; i += 2)
			assert_true(live_set_add(
				&chain.set, chain.blocks[i], (struct live_block){ 0 }));
	}
	atomic_store(&chain.is_done, true);
	pthread_join(thread, NULL);
	assert_int_equal(chain.missed, 0);
	live_set_deinit(&chain.set);
}

/* Where the filter cannot decide, because of a block with the same hash bits. */
static void whether_a_block_is_in_it_is_open_during_a_move(void **state)
{
	struct live_set set;
	size_t other = 1;

	(void)state;
	assert_true(live_set_init(&set));
	assert_true(live_set_add(&set, block_at(0), (struct live_block){ 0 }));
	const struct live_table *const table = atomic_load(&set.table);
	const uint64_t hash = live_hash((uintptr_t)block_at(0));
	for (;; other++) {
		const uint64_t its = live_hash((uintptr_t)block_at(other));
		if (live_slot(table, its) == live_slot(table, hash) &&
			live_bit(its) == live_bit(hash))
			break;
	}
	assert_false(live_set_has(&set, block_at(other)));
	atomic_fetch_add(&set.moves, 1);
	assert_true(live_set_has(&set, block_at(other)));
	atomic_fetch_add(&set.moves, 1);
	assert_false(live_set_has(&set, block_at(other)));
	live_set_deinit(&set);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(no_block_is_in_an_empty_set),
	cmocka_unit_test(it_is_exact_whatever_is_added_and_removed),
	cmocka_unit_test(removed_blocks_leave_no_slots_behind),
	cmocka_unit_test(ten_thousand_blocks_that_come_and_go_need_little_memory),
	cmocka_unit_test(readers_find_what_is_in_it_while_it_grows),
	cmocka_unit_test(readers_find_what_a_removal_moves),
	cmocka_unit_test(whether_a_block_is_in_it_is_open_during_a_move),
};

UNIT_MAIN(tests)
