/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/series.h"

#include <stdlib.h>

#include "analysis/comparison.h"
#include "profile_texts.h"

/* Objects so much larger than the interval that estimates are what was recorded. */
#define TWO_STACKS                                       \
	"@ 0x401001 0x402001\n  t*: 1: 1000 [3: 3000]\n" \
	"@ 0x403001\n  t*: 2: 2000 [5: 5000]\n"
#define OTHER_STACKS                          \
	"@ 0x404001\n  t*: 1: 700 [1: 700]\n" \
	"@ 0x403001\n  t*: 3: 3000 [5: 5000]\n"
#define LIBRARY "/lib/libserver.so\n"
#define MAPS "400000-500000 r-xp 00000000 00:00 1 /bin/server\n"

static void add(struct series *series, int64_t time_ms, const char *stacks, const char *maps)
{
	char text[1024];

	snprintf(text, sizeof text, "heap_v2/1\n  t*: 3: 3000 [8: 8000]\n%s\nMAPPED_LIBRARIES:\n%s",
		stacks, maps);
	struct profile *const profile = must_read_text(text);
	profile->time_ms = time_ms;
	profile->name = profile_intern(profile, time_ms == 1 ? "first" : "later");
	series_add(series, profile);
}

/* The innermost address of a line's stack. */
static uint64_t leaf_of(const struct series *series, size_t profile, size_t line)
{
	const struct series_profile *const from = &series->profiles[profile];
	const struct profile *const shared = series->shared[from->shared];
	const struct profile_stack *const stack = &shared->stacks[from->lines[line].stack];

	return shared->locations[shared->stack_locations[stack->first]].address;
}

static void what_is_the_same_is_kept_once(void **state)
{
	(void)state;
	CLEANUP(series_deinit) struct series series = { 0 };

	series_init(&series, PROFILE_INUSE_SPACE);
	add(&series, 1, TWO_STACKS, MAPS "700000-800000 rw-p 00000000 00:00 0 [heap]\n");
	add(&series, 2, OTHER_STACKS, MAPS "700000-900000 rw-p 00000000 00:00 0 [heap]\n");
	series_finish(&series);
	assert_int_equal(series.shared_count, 1);
	assert_int_equal(series.shared[0]->stack_count, 3);
	assert_int_equal(series.shared[0]->sample_count, 3);
	assert_int_equal(series.shared[0]->location_count, 4);
	assert_int_equal(leaf_of(&series, 0, 1), 0x403001);
	assert_int_equal(leaf_of(&series, 1, 0), 0x404001);
	assert_int_equal(leaf_of(&series, 1, 1), 0x403001);
	assert_true(series.profiles[0].lines[0].value == 1000);
	assert_true(series.profiles[1].lines[1].value == 3000);
}

static void the_counter_that_was_asked_for_is_kept(void **state)
{
	(void)state;
	CLEANUP(series_deinit) struct series series = { 0 };

	series_init(&series, PROFILE_ALLOC_OBJECTS);
	add(&series, 1, TWO_STACKS, MAPS);
	assert_true(series.profiles[0].lines[0].value == 3);
	assert_true(series.profiles[0].lines[1].value == 5);
}

static void what_is_shared_is_in_the_order_of_the_profiles(void **state)
{
	(void)state;
	CLEANUP(series_deinit) struct series series = { 0 };

	series_init(&series, PROFILE_INUSE_SPACE);
	add(&series, 2, TWO_STACKS, MAPS "a00000-b00000 r-xp 00000000 00:00 2 " LIBRARY);
	add(&series, 3, OTHER_STACKS, MAPS "a00000-b00000 r-xp 00000000 00:00 2 " LIBRARY);
	add(&series, 1, TWO_STACKS, MAPS "c00000-d00000 r-xp 00000000 00:00 2 " LIBRARY);
	const struct series_profile first = series.profiles[2];
	series.profiles[2] = series.profiles[1];
	series.profiles[1] = series.profiles[0];
	series.profiles[0] = first;
	series_finish(&series);
	assert_int_equal(series.shared_count, 2);
	assert_string_equal(series.shared[0]->name, "first");
	assert_string_equal(series.shared[1]->name, "later");
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(series.profiles[i].shared, i == 0 ? 0 : 1);
	assert_int_equal(leaf_of(&series, 0, 0), 0x401001);
	assert_int_equal(leaf_of(&series, 2, 0), 0x404001);
}

/* Counts of everything ever allocated that go back: prof.reset. */
static void a_sketch_shows_a_reset(void **state)
{
	(void)state;
	static const char maps[] = MAPS "a00000-b00000 r-xp 00000000 00:00 2 " LIBRARY;
	CLEANUP(series_deinit) struct series series = { 0 };

	series_init(&series, PROFILE_INUSE_SPACE);
	add(&series, 1, TWO_STACKS, maps);
	add(&series, 2, TWO_STACKS, maps);
	add(&series, 3, OTHER_STACKS, maps);
	series_finish(&series);
	struct profile sketches[3];
	for (size_t i = 0; i < 3; i++)
		sketches[i] = series_allocations(&series, i);
	assert_true(comparison_of(&sketches[0], &sketches[1]).is_same_run);
	assert_false(comparison_of(&sketches[0], &sketches[1]).was_reset);
	assert_true(comparison_of(&sketches[1], &sketches[2]).was_reset);
	for (size_t i = 0; i < 3; i++)
		free(sketches[i].samples);
}

/* Of a format without addresses, whose locations are their names. */
static void names_that_profiles_bring_are_distinguished(void **state)
{
	(void)state;
	CLEANUP(series_deinit) struct series series = { 0 };

	series_init(&series, PROFILE_INUSE_SPACE);
	series_add(&series, must_read_text("main;f 10\nmain;g 20\n"));
	series_add(&series, must_read_text("main;g 30\nmain;h 40\n"));
	series_finish(&series);
	assert_int_equal(series.shared_count, 1);
	const struct profile *const shared = series.shared[0];
	assert_int_equal(shared->location_count, 4);
	assert_int_equal(shared->frame_count, 4);
	assert_int_equal(shared->stack_count, 3);
	assert_int_equal(series.profiles[0].lines[1].stack, series.profiles[1].lines[0].stack);
	assert_string_equal(shared->frames[3].function, "h");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_is_the_same_is_kept_once),
	cmocka_unit_test(the_counter_that_was_asked_for_is_kept),
	cmocka_unit_test(what_is_shared_is_in_the_order_of_the_profiles),
	cmocka_unit_test(a_sketch_shows_a_reset),
	cmocka_unit_test(names_that_profiles_bring_are_distinguished),
};

UNIT_MAIN(tests)
