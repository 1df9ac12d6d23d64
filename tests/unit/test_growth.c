/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth.h"

#include <math.h>

#include "unit.h"

static uint64_t random_state;

static double chance(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (double)((random_state * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

/* By inversion, in pieces that exp() can hold. */
static unsigned poisson(double mean)
{
	unsigned count = 0;

	for (double left = mean; left > 0; left -= 20) {
		const double limit = exp(-fmin(left, 20));
		for (double product = chance(); product > limit; product *= chance())
			count++;
	}
	return count;
}

static unsigned survivors(unsigned count, double share)
{
	unsigned left = 0;

	for (unsigned i = 0; i < count; i++)
		left += chance() < share;
	return left;
}

/* Sampled objects of weight 1: some that stay, a base of which a share survives each interval, and
 * a leak. */
struct heap {
	double lasting, base, survival, leak;
	size_t rounds;
};

static struct growth simulate(const struct heap *heap)
{
	struct growth_point points[64];
	struct growth growth = { 0 };
	unsigned base = poisson(heap->base), leaked = poisson(heap->lasting);

	for (size_t i = 0; i < heap->rounds; i++) {
		if (i != 0) {
			base = survivors(base, heap->survival) +
			       poisson(heap->base * (1 - heap->survival));
			leaked += poisson(heap->leak);
		}
		points[i] = (struct growth_point){ (double)i, base + leaked, base + leaked, 0 };
	}
	assert_true(growth_fit(points, heap->rounds, &growth));
	return growth;
}

enum { TRIALS = 200 };

/* The shares of trials whose interval holds the truth, and that are called growing. */
static void measure(const struct heap *heap, double *held, double *grew)
{
	*held = *grew = 0;
	for (int i = 0; i < TRIALS; i++) {
		const struct growth growth = simulate(heap);
		*held += (growth.low <= heap->leak && heap->leak <= growth.high) / (double)TRIALS;
		*grew += (growth.p < 0.05) / (double)TRIALS;
		/* "+1 MiB/h, give or take 2" accuses nobody. */
		assert_true(growth.kind != GROWTH_STEADY || growth.low > 0);
	}
}

static void assert_promise(struct heap heap, double least, double most)
{
	double held, grew;

	measure(&heap, &held, &grew);
	if (held < least || held > most)
		fail_msg("the interval holds the truth in %.3f of the trials", held);
	if (heap.leak == 0 && grew > 0.12)
		fail_msg("%.3f of the trials grow", grew);
}

static void holds_the_truth_of_a_leak(void **state)
{
	(void)state;
	random_state = 1;
	/* Four standard errors of 200 trials are 6%; bench/bench_trend.py looks more closely. */
	assert_promise((struct heap){ .leak = 5, .rounds = 12 }, 0.9, 0.995);
	assert_promise((struct heap){ .leak = 1, .rounds = 20 }, 0.9, 0.995);
	assert_promise((struct heap){ .leak = 30, .rounds = 30 }, 0.9, 0.995);
	assert_promise((struct heap){ .lasting = 100, .leak = 5, .rounds = 12 }, 0.9, 0.995);
}

static void holds_the_truth_of_what_is_turned_over(void **state)
{
	(void)state;
	random_state = 2;
	assert_promise((struct heap){ .base = 100, .rounds = 12 }, 0.9, 0.995);
	assert_promise((struct heap){ .base = 1000, .rounds = 24 }, 0.9, 0.995);
	assert_promise((struct heap){ .base = 100, .survival = 0.5, .rounds = 12 }, 0.9, 1);
	assert_promise((struct heap){ .base = 100, .survival = 0.8, .rounds = 12 }, 0.9, 1);
	assert_promise((struct heap){ .base = 100, .survival = 0.95, .rounds = 8 }, 0.88, 1);
	assert_promise((struct heap){ .lasting = 50, .base = 50, .rounds = 24 }, 0.9, 1);
	assert_promise((struct heap){ .base = 2, .survival = 0.9, .rounds = 20 }, 0.86, 1);
}

/*
 * A queue that is filled anew each time, as high as its place in a period of four tells. In the
 * middle nobody looked for a while.
 */
static struct growth simulate_queue(size_t rounds, size_t hole)
{
	struct growth_point points[64];
	struct growth growth = { 0 };

	for (size_t i = 0; i < rounds; i++) {
		const size_t at = i < rounds / 2 ? i : i + hole;
		const unsigned count = poisson(50 + 100 * (double)(at % 4));
		points[i] = (struct growth_point){ (double)at, count, count, 0 };
	}
	assert_true(growth_fit(points, rounds, &growth));
	return growth;
}

static void assert_swings(size_t rounds, size_t hole)
{
	double held = 0;

	for (int i = 0; i < TRIALS; i++) {
		const struct growth growth = simulate_queue(rounds, hole);
		assert_true(fabs(growth.period_hours - 4) < 0.01);
		held += (growth.low <= 0 && 0 <= growth.high) / (double)TRIALS;
	}
	if (held < 0.9 || held > 0.999)
		fail_msg("after %zu rounds and a hole of %zu the interval holds the truth in %.3f",
			rounds, hole, held);
}

static void holds_the_truth_of_swings(void **state)
{
	(void)state;
	random_state = 5;
	for (size_t rounds = 8; rounds <= 32; rounds += rounds / 2)
		assert_swings(rounds, 0);
}

static void holds_the_truth_of_swings_beside_a_hole(void **state)
{
	(void)state;
	random_state = 6;
	for (size_t hole = 1; hole <= 5; hole++)
		assert_swings(16, hole);
}

/* Filled evenly and emptied at once, at other phases each time. */
static double held_of_a_saw(size_t rounds, double period)
{
	double held = 0;

	for (int i = 0; i < TRIALS; i++) {
		const double begin = chance();
		struct growth_point points[64];
		struct growth growth = { 0 };
		for (size_t k = 0; k < rounds; k++) {
			const unsigned count =
				poisson(20 + 300 * fmod((double)k / period + begin, 1));
			points[k] = (struct growth_point){ (double)k, count, count, 0 };
		}
		assert_true(growth_fit(points, rounds, &growth));
		held += (growth.low <= 0 && 0 <= growth.high) / (double)TRIALS;
	}
	return held;
}

static void knows_a_fold_that_is_not_quite_right(void **state)
{
	(void)state;
	random_state = 7;
	assert_true(held_of_a_saw(60, 6.7) > 0.93);
	assert_true(held_of_a_saw(50, 9.3) > 0.93);
}

static void finds_a_leak_inside_a_busy_site(void **state)
{
	(void)state;
	const struct heap heap = { .base = 100, .survival = 0, .leak = 5, .rounds = 16 };
	double held, grew;

	random_state = 3;
	measure(&heap, &held, &grew);
	assert_true(grew > 0.95);
	assert_true(held > 0.91);
}

static struct growth fit(double (*shape)(double), size_t count)
{
	struct growth_point points[1200];
	struct growth growth = { 0 };

	random_state = 4;
	for (size_t i = 0; i < count; i++)
		points[i] = (struct growth_point){ (double)i,
			shape((double)i) + 4 * (chance() - 0.5), 4, 0 };
	assert_true(growth_fit(points, count, &growth));
	return growth;
}

static double line(double t)
{
	return 100 + 3 * t;
}

static double falling(double t)
{
	return 1000 - 3 * t;
}

static double level(double t)
{
	return 100 + 0 * t;
}

static double step(double t)
{
	return t < 9 ? 100 : 400;
}

static double saw(double t)
{
	return 100 + 50 * fmod(t, 4);
}

static double rising_saw(double t)
{
	return saw(t) + 60 * t;
}

static double ramp(double t)
{
	return t < 9 ? 100 : t < 12 ? 100 + 100 * (t - 9) : 400;
}

static double leaking_saw(double t)
{
	return saw(t) + 2 * t;
}

static void tells_shapes_apart(void **state)
{
	(void)state;
	assert_int_equal(fit(line, 12).kind, GROWTH_STEADY);
	assert_int_equal(fit(falling, 12).kind, GROWTH_FALL);
	assert_int_equal(fit(level, 12).kind, GROWTH_NONE);
	assert_int_equal(fit(saw, 16).kind, GROWTH_CYCLE);
	assert_true(fabs(fit(saw, 16).period_hours - 4) < 0.4);
	const struct growth jump = fit(step, 20);
	assert_int_equal(jump.kind, GROWTH_JUMP);
	assert_true(fabs(jump.jump - 300) < 5);
	assert_true(fabs(jump.jump_hours - 8.5) < 0.01);
	assert_true(fabs(jump.jump_lasted_hours - 1) < 0.01);
	assert_int_equal(fit(rising_saw, 16).kind, GROWTH_STEADY);
}

static void takes_growth_that_ended_for_one_step(void **state)
{
	(void)state;
	const struct growth growth = fit(ramp, 24);

	assert_int_equal(growth.kind, GROWTH_JUMP);
	assert_true(fabs(growth.jump - 300) < 5);
	assert_true(fabs(growth.jump_hours - 10.5) < 0.6);
	assert_true(fabs(growth.jump_lasted_hours - 3) < 1.1);
}

static void sees_growth_below_swings(void **state)
{
	(void)state;
	const struct growth growth = fit(leaking_saw, 32);

	assert_int_equal(growth.kind, GROWTH_CYCLE);
	assert_true(growth.low < 2 && 2 < growth.high);
	assert_true(growth.low > 0);
}

static void knows_that_nothing_seen_is_not_nothing(void **state)
{
	(void)state;
	struct growth_point points[11];
	struct growth growth;

	/* Two samples that stay: three to four more in the time could have been missed. */
	for (unsigned i = 0; i < 11; i++)
		points[i] = (struct growth_point){ i, 2, 2, 0 };
	assert_true(growth_fit(points, 11, &growth));
	assert_true(fabs(growth.rate) < 0.01);
	assert_true(growth.high > 0.3 && growth.high < 0.6);
}

static void counts_the_rises(void **state)
{
	(void)state;
	const struct growth growth = fit(line, 12);

	assert_int_equal(growth.intervals, 11);
	assert_true(growth.rises >= 10);
	assert_true(growth.low < 3 && growth.high > 3);
}

static void averages_long_series(void **state)
{
	(void)state;
	const struct growth growth = fit(line, 1200);

	assert_int_equal(growth.intervals, GROWTH_POINTS - 1);
	assert_true(fabs(growth.rate - 3) < 0.01);
}

static void fits_one_rate_across_restarts(void **state)
{
	(void)state;
	struct growth_point points[12];
	struct growth growth;

	/* Each run begins at 0 and gains 10 in an hour: taken as one it would not grow. */
	for (unsigned i = 0; i < 12; i++)
		points[i] = (struct growth_point){ i, 10 * (i % 4), 1, i / 4 };
	assert_true(growth_fit(points, 12, &growth));
	assert_true(fabs(growth.rate - 10) < 0.01);
	assert_int_equal(growth.intervals, 9);
	assert_int_equal(growth.rises, 9);
	assert_int_equal(growth.kind, GROWTH_STEADY);
}

static void refuses_what_is_too_short(void **state)
{
	(void)state;
	const struct growth_point two[] = { { 0, 1, 1, 0 }, { 1, 2, 1, 0 } };
	const struct growth_point apart[] = { { 0, 1, 1, 0 }, { 1, 2, 1, 1 }, { 2, 3, 1, 2 } };
	const struct growth_point at_once[] = { { 5, 1, 1, 0 }, { 5, 2, 1, 0 }, { 5, 3, 1, 0 } };
	struct growth growth;

	assert_false(growth_fit(two, 2, &growth));
	assert_false(growth_fit(apart, 3, &growth));
	assert_false(growth_fit(at_once, 3, &growth));
	assert_false(growth_fit(two, 0, &growth));
}

static void has_no_trouble_with_nothing(void **state)
{
	(void)state;
	struct growth_point points[40] = { { 0 } };
	struct growth growth;

	for (unsigned i = 0; i < 40; i++)
		points[i] = (struct growth_point){ i, 0, 0, 0 };
	assert_true(growth_fit(points, 40, &growth));
	assert_int_equal(growth.kind, GROWTH_NONE);
	assert_true(growth.low <= 0 && growth.high >= 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(holds_the_truth_of_a_leak),
	cmocka_unit_test(holds_the_truth_of_what_is_turned_over),
	cmocka_unit_test(holds_the_truth_of_swings),
	cmocka_unit_test(holds_the_truth_of_swings_beside_a_hole),
	cmocka_unit_test(knows_a_fold_that_is_not_quite_right),
	cmocka_unit_test(finds_a_leak_inside_a_busy_site),
	cmocka_unit_test(tells_shapes_apart),
	cmocka_unit_test(takes_growth_that_ended_for_one_step),
	cmocka_unit_test(sees_growth_below_swings),
	cmocka_unit_test(knows_that_nothing_seen_is_not_nothing),
	cmocka_unit_test(counts_the_rises),
	cmocka_unit_test(averages_long_series),
	cmocka_unit_test(fits_one_rate_across_restarts),
	cmocka_unit_test(refuses_what_is_too_short),
	cmocka_unit_test(has_no_trouble_with_nothing),
};

UNIT_MAIN(tests)
