/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/memory_drift.h"

#include <math.h>

#include "random_numbers.h"
#include "unit.h"

enum { COUNT = 48, TRIES = 2000 };

/* Nearly normal, of variance 1. */
static double noise(void)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += chance();
	return sum;
}

/* Grows by `rate` an hour, wanders by `step` and scatters by `scatter`. */
static void make(struct memory_point points[COUNT], double rate, double step, double scatter)
{
	double level = 1e9;

	for (int i = 0; i < COUNT; i++) {
		level += rate / 2 + step * noise();
		points[i] = (struct memory_point){ i / 2.0, level + scatter * noise() };
	}
}

static double share_that_is_said_to_grow(double rate, double step, double scatter)
{
	struct memory_point points[COUNT];
	struct memory_drift drift;
	int grown = 0;

	random_state = 42;
	for (int i = 0; i < TRIES; i++) {
		make(points, rate, step, scatter);
		assert_true(memory_drift_find(points, COUNT, &drift));
		grown += drift.p < 0.025;
	}
	return grown / (double)TRIES;
}

static void memory_that_wanders_or_scatters_does_not_grow(void **state)
{
	(void)state;
	/* 5 standard errors of a share of 0.025 are 0.0175. */
	assert_true(share_that_is_said_to_grow(0, 1e6, 0) < 0.0425);
	assert_true(share_that_is_said_to_grow(0, 0, 1e7) < 0.0425);
	assert_true(share_that_is_said_to_grow(0, 1e6, 1e6) < 0.0425);
}

static void a_leak_beyond_the_noise_is_found(void **state)
{
	(void)state;
	assert_true(share_that_is_said_to_grow(4e6, 1e6, 1e6) > 0.99);
}

static void the_interval_contains_the_rate(void **state)
{
	struct memory_point points[COUNT];
	struct memory_drift drift;
	int within = 0;

	(void)state;
	random_state = 7;
	for (int i = 0; i < TRIES; i++) {
		make(points, 1e6, 1e6, 0);
		assert_true(memory_drift_find(points, COUNT, &drift));
		within += drift.low <= 1e6 && drift.high >= 1e6;
	}
	/* 5 standard errors of a share of 0.95 are 0.0244. */
	assert_in_range(within, TRIES * 9256 / 10000, TRIES * 9744 / 10000);
}

static void too_few_points_have_no_rate_and_points_that_never_move_one_of_0(void **state)
{
	struct memory_point points[] = { { 0, 5 }, { 1, 5 }, { 2, 5 }, { 3, 5 }, { 4, 5 } };
	struct memory_drift drift;

	(void)state;
	assert_true(memory_drift_find(points, 5, &drift));
	assert_true(drift.rate == 0 && drift.low == 0 && drift.high == 0 && drift.p == 1);
	points[4].bytes = 9;
	assert_true(memory_drift_find(points, 5, &drift));
	assert_true(drift.rate == 1);
	assert_true(drift.low < 0);
	assert_false(memory_drift_find(points, 4, &drift));
	/* Of one time. */
	points[4].hours = 3;
	assert_false(memory_drift_find(points, 5, &drift));
}

static void what_grows_evenly_has_no_error(void **state)
{
	const struct memory_point points[] = { { 0, 0 }, { 1, 2 }, { 2, 4 }, { 3, 6 }, { 4, 8 } };
	struct memory_drift drift;

	(void)state;
	assert_true(memory_drift_find(points, 5, &drift));
	assert_true(drift.rate == 2 && drift.low == 2 && drift.high == 2 && drift.p == 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(memory_that_wanders_or_scatters_does_not_grow),
	cmocka_unit_test(a_leak_beyond_the_noise_is_found),
	cmocka_unit_test(the_interval_contains_the_rate),
	cmocka_unit_test(too_few_points_have_no_rate_and_points_that_never_move_one_of_0),
	cmocka_unit_test(what_grows_evenly_has_no_error),
};

UNIT_MAIN(tests)
