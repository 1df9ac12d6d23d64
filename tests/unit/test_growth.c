/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth.h"

#include <math.h>

#include "random_numbers.h"
#include "unit.h"

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
	struct growth_point points[1000];
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
	assert_true(growth_fit(points, heap->rounds, NULL, &growth));
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
		/* "+1 MiB/h, give or take 2" suspects no site. */
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
	need_plain_build();
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
	need_plain_build();
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
 * middle there were no profiles for a time.
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
	assert_true(growth_fit(points, rounds, NULL, &growth));
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
	/* Fewer than three periods leave open how long one is. */
	if (held < 0.9 || (held > 0.999 && rounds + hole >= 12))
		fail_msg("after %zu rounds and a hole of %zu the interval holds the truth in %.3f",
			rounds, hole, held);
}

static void holds_the_truth_of_swings(void **state)
{
	(void)state;
	need_plain_build();
	random_state = 5;
	for (size_t rounds = 8; rounds <= 32; rounds += rounds / 2)
		assert_swings(rounds, 0);
}

static void holds_the_truth_of_swings_beside_a_hole(void **state)
{
	(void)state;
	need_plain_build();
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
		assert_true(growth_fit(points, rounds, NULL, &growth));
		held += (growth.low <= 0 && 0 <= growth.high) / (double)TRIALS;
	}
	return held;
}

static void knows_a_fold_that_is_not_quite_right(void **state)
{
	(void)state;
	need_plain_build();
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
	assert_true(growth_fit(points, count, NULL, &growth));
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
	assert_true(fabs(jump.steps[0].size - 300) < 5);
	assert_true(fabs(jump.steps[0].hours - 8.5) < 0.01);
	assert_true(fabs(jump.steps[0].lasted_hours - 1) < 0.01);
	assert_int_equal(fit(rising_saw, 16).kind, GROWTH_STEADY);
}

static void takes_growth_that_ended_for_one_step(void **state)
{
	(void)state;
	const struct growth growth = fit(ramp, 24);

	assert_int_equal(growth.kind, GROWTH_JUMP);
	assert_true(fabs(growth.steps[0].size - 300) < 5);
	assert_true(fabs(growth.steps[0].hours - 10.5) < 0.6);
	assert_true(fabs(growth.steps[0].lasted_hours - 3) < 1.1);
}

static void sees_growth_below_swings(void **state)
{
	(void)state;
	const struct growth growth = fit(leaking_saw, 32);

	assert_int_equal(growth.kind, GROWTH_CYCLE);
	assert_true(growth.low < 2 && 2 < growth.high);
	assert_true(growth.low > 0);
}

static void sees_growth_below_swings_that_begins_late(void **state)
{
	(void)state;
	struct growth_point points[32];
	struct growth growth = { 0 };

	for (size_t i = 0; i < 32; i++) {
		const double value =
			200 + 120 * sin(2 * M_PI * (double)i / 8) + 24 * fmax((double)i - 16, 0);
		points[i] = (struct growth_point){ (double)i, value, value, 0 };
	}
	assert_true(growth_fit(points, 32, NULL, &growth));
	assert_int_equal(growth.kind, GROWTH_STEADY);
	assert_true(fabs(growth.period_hours - 8) < 0.2);
	assert_true(growth.has_onset && fabs(growth.onset_hours - 16) <= 1);
	assert_true(growth.low < 24 && 24 < growth.high);
	assert_true(growth.low > 18 && growth.high < 30);
}

static void knows_that_nothing_seen_is_not_nothing(void **state)
{
	(void)state;
	struct growth_point points[11];
	struct growth growth;

	/* Two samples that stay: three to four more in the time could have been missed. */
	for (unsigned i = 0; i < 11; i++)
		points[i] = (struct growth_point){ i, 2, 2, 0 };
	assert_true(growth_fit(points, 11, NULL, &growth));
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

static void counts_the_falls(void **state)
{
	(void)state;
	struct growth_point points[12];
	struct growth growth;

	/* Of 11 intervals, it falls in 8, rises in one, and stays in two. */
	for (unsigned i = 0; i < 12; i++)
		points[i] = (struct growth_point){ i,
			100 - 10 * i + (i >= 3 ? 11 : 0) + (i >= 6 ? 10 : 0) + (i >= 9 ? 10 : 0), 1,
			0 };
	assert_true(growth_fit(points, 12, NULL, &growth));
	assert_int_equal(growth.intervals, 11);
	assert_int_equal(growth.rises, 1);
	assert_int_equal(growth.falls, 8);
}

static void what_may_have_grown_does_not_fall(void **state)
{
	(void)state;
	/* Of a steady site of four samples, by a real server. */
	static const unsigned char counts[] = { 5, 3, 4, 7, 4, 5, 3, 3, 3, 4, 4, 3, 4, 7, 5, 5, 4,
		3, 5, 4, 6, 5, 4, 7, 5, 5, 3, 4, 4, 3, 1, 5, 7, 5, 6, 3, 6, 3, 7, 2, 2, 6, 7, 2, 3,
		2, 5, 4, 3, 3, 2, 4, 4, 3, 5, 2, 2, 5, 5, 2, 5, 3, 6, 3, 3, 4, 5, 3, 4, 2, 4, 5, 4,
		5, 2, 3, 4, 5, 6, 3, 6, 4, 2, 5, 5, 1, 3, 2, 3, 6, 3, 4, 7, 6, 5, 1, 2, 2, 2, 1,
		1 };
	struct growth_point points[sizeof counts];
	struct growth growth;

	for (size_t i = 0; i < sizeof counts; i++)
		points[i] = (struct growth_point){ (double)i, counts[i], counts[i], 0 };
	assert_true(growth_fit(points, sizeof counts, NULL, &growth));
	assert_true(growth.low < 0 && growth.high > 0);
	assert_int_equal(growth.kind, GROWTH_NONE);
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
	assert_true(growth_fit(points, 12, NULL, &growth));
	assert_true(fabs(growth.rate - 10) < 0.01);
	assert_int_equal(growth.intervals, 9);
	assert_int_equal(growth.rises, 9);
	assert_int_equal(growth.falls, 0);
	assert_int_equal(growth.kind, GROWTH_STEADY);
}

/* As trend_build does for processes. */
static struct growth fit_processes(const struct growth_point *points, size_t count)
{
	struct growth growth = { 0 };

	assert_true(growth_fit(points, count, NULL, &growth));
	growth_add_restarts(points, count, NULL, &growth);
	return growth;
}

static void a_restart_to_another_level_is_a_step(void **state)
{
	(void)state;
	struct growth_point points[12];

	for (unsigned i = 0; i < 12; i++) {
		const double value = (i < 6 ? 100 : 400) + i % 2;
		points[i] = (struct growth_point){ i, value, value, i / 6 };
	}
	const struct growth other = fit_processes(points, 12);
	assert_int_equal(other.kind, GROWTH_JUMP);
	assert_int_equal(other.step_count, 1);
	assert_true(other.steps[0].is_restart && other.steps[0].hours == 5.5);
	assert_true(other.steps[0].size == 300);
	/* A difference that sampling explains is none. */
	for (unsigned i = 6; i < 12; i++)
		points[i].value -= 280;
	assert_int_equal(fit_processes(points, 12).kind, GROWTH_NONE);
}

static void a_restart_is_reported_beside_the_steps_of_a_run(void **state)
{
	(void)state;
	struct growth_point points[24];

	for (unsigned i = 0; i < 24; i++) {
		const double value = i < 6 ? 100 : i < 12 ? 300 : 900;
		points[i] = (struct growth_point){ i, value, value, i / 12 };
	}
	const struct growth growth = fit_processes(points, 24);
	assert_int_equal(growth.kind, GROWTH_JUMP);
	assert_int_equal(growth.step_count, 2);
	assert_true(!growth.steps[0].is_restart && growth.steps[0].size == 200);
	assert_true(growth.steps[1].is_restart && growth.steps[1].size == 600);
}

static void growth_after_restarts_has_no_steps(void **state)
{
	(void)state;
	struct growth_point points[12];

	for (unsigned i = 0; i < 12; i++)
		points[i] = (struct growth_point){ i, 10 * (i % 4), 1, i / 4 };
	const struct growth growth = fit_processes(points, 12);
	assert_int_equal(growth.kind, GROWTH_STEADY);
	assert_int_equal(growth.step_count, 0);
}

static void refuses_what_is_too_short(void **state)
{
	(void)state;
	const struct growth_point two[] = { { 0, 1, 1, 0 }, { 1, 2, 1, 0 } };
	const struct growth_point apart[] = { { 0, 1, 1, 0 }, { 1, 2, 1, 1 }, { 2, 3, 1, 2 } };
	const struct growth_point at_once[] = { { 5, 1, 1, 0 }, { 5, 2, 1, 0 }, { 5, 3, 1, 0 } };
	struct growth growth;

	assert_false(growth_fit(two, 2, NULL, &growth));
	assert_false(growth_fit(apart, 3, NULL, &growth));
	assert_false(growth_fit(at_once, 3, NULL, &growth));
	assert_false(growth_fit(two, 0, NULL, &growth));
}

static void has_no_trouble_with_nothing(void **state)
{
	(void)state;
	struct growth_point points[40] = { { 0 } };
	struct growth growth;

	for (unsigned i = 0; i < 40; i++)
		points[i] = (struct growth_point){ i, 0, 0, 0 };
	assert_true(growth_fit(points, 40, NULL, &growth));
	assert_int_equal(growth.kind, GROWTH_NONE);
	assert_true(growth.low <= 0 && growth.high >= 0);
}

/* Sampled objects of weight 1 that stay, and from `onset` on `rate` more an hour. */
static struct growth fit_onset(double level_count, size_t rounds, double onset, double rate)
{
	struct growth_point points[64];
	struct growth growth = { 0 };
	unsigned count = poisson(level_count);

	for (size_t i = 0; i < rounds; i++) {
		const double hours = (double)i - onset;
		if (hours > 0)
			count += poisson(rate * fmin(hours, 1));
		points[i] = (struct growth_point){ (double)i, count, count, 0 };
	}
	assert_true(growth_fit(points, rounds, NULL, &growth));
	return growth;
}

static void a_leak_that_begins_late_is_growth_since_then(void **state)
{
	(void)state;
	need_plain_build();
	static const double shares[] = { 0.25, 0.5, 0.667 };
	unsigned held = 0, fits = 0;

	random_state = 8;
	/* 64 MiB, and 50 MiB an hour more, by one sample for each 512 KiB. */
	for (size_t rounds = 8; rounds <= 64; rounds *= 2) {
		for (size_t s = 0; s < 3; s++) {
			for (int i = 0; i < 20; i++) {
				const double onset = shares[s] * (double)(rounds - 1);
				const struct growth growth = fit_onset(128, rounds, onset, 100);
				assert_int_equal(growth.kind, GROWTH_STEADY);
				assert_true(growth.has_onset);
				assert_true(growth.p < 0.017);
				assert_true(fabs(growth.onset_hours - onset) <= 1);
				assert_true(growth.onset_low <= growth.onset_hours &&
					    growth.onset_hours <= growth.onset_high);
				held += growth.low <= 100 && 100 <= growth.high;
				fits++;
			}
		}
	}
	/* Growth began between two profiles, so that the line is a little less steep than that. */
	assert_true(held > 0.8 * fits);
}

static void no_more_profiles_make_an_onset_harder_to_see(void **state)
{
	(void)state;
	need_plain_build();
	double before = 0;

	random_state = 9;
	for (size_t rounds = 8; rounds <= 64; rounds *= 2) {
		double found = 0;
		for (int i = 0; i < 100; i++) {
			const struct growth growth =
				fit_onset(64, rounds, 0.667 * (double)(rounds - 1), 8);
			found += growth.kind == GROWTH_STEADY && growth.p < 0.01;
		}
		/* Three standard errors of a hundred trials. */
		assert_true(found >= before - 15);
		before = found;
	}
	assert_true(before >= 99);
}

static struct growth fit_levels(size_t rounds, const double *levels, const size_t *ends)
{
	struct growth_point points[64];
	struct growth growth = { 0 };
	size_t at = 0;

	for (size_t i = 0; i < rounds; i++) {
		at += i == ends[at];
		points[i] = (struct growth_point){ (double)i, levels[at], levels[at], 0 };
	}
	assert_true(growth_fit(points, rounds, NULL, &growth));
	return growth;
}

static void one_small_step_of_what_stays_is_a_step(void **state)
{
	(void)state;
	need_plain_build();
	static const double levels[] = { 128, 192 };

	for (size_t rounds = 5; rounds <= 64; rounds++) {
		for (size_t end = 2; end + 2 <= rounds; end += 1 + rounds / 8) {
			const size_t ends[] = { end, SIZE_MAX };
			const struct growth growth = fit_levels(rounds, levels, ends);
			assert_int_equal(growth.kind, GROWTH_JUMP);
			assert_int_equal(growth.step_count, 1);
			assert_true(fabs(growth.steps[0].hours - (double)end + 0.5) < 1e-9);
			assert_true(fabs(growth.steps[0].size - 64) < 1e-9);
		}
	}
}

static double share_of_steps(const struct heap *heap)
{
	double steps = 0;

	for (int i = 0; i < 2 * TRIALS; i++)
		steps += (simulate(heap).kind == GROWTH_JUMP) / (2.0 * TRIALS);
	return steps;
}

static void few_points_of_what_comes_and_goes_are_seldom_a_step(void **state)
{
	(void)state;
	need_plain_build();
	static const double survivals[] = { 0.6, 0.75, 0.85 };

	random_state = 17;
	for (size_t i = 0; i < sizeof survivals / sizeof survivals[0]; i++) {
		for (size_t rounds = 5; rounds <= 8; rounds += 3) {
			const struct heap heap = {
				.base = 100, .survival = survivals[i], .rounds = rounds
			};
			const double steps = share_of_steps(&heap);
			if (steps > 0.08)
				fail_msg("%zu points, survival %.2f: %.3f are steps", rounds,
					survivals[i], steps);
		}
	}
}

/* As many large objects as ever, most of which are sampled. */
static struct growth simulate_pool(size_t rounds)
{
	enum { OBJECTS = 17 };
	const struct growth_objects objects = { .weight = 1.06 };
	const double sampled_share = 0.94, replaced_share = 0.22;
	struct growth_point points[64];
	struct growth growth = { 0 };
	bool is_sampled[OBJECTS];

	for (size_t i = 0; i < rounds; i++) {
		double count = 0;
		for (size_t j = 0; j < OBJECTS; j++) {
			if (i == 0 || chance() < replaced_share)
				is_sampled[j] = chance() < sampled_share;
			count += is_sampled[j];
		}
		points[i] = (struct growth_point){ (double)i, count / sampled_share,
			count * (1 - sampled_share) / (sampled_share * sampled_share), 0 };
	}
	assert_true(growth_fit(points, rounds, &objects, &growth));
	return growth;
}

static void a_pool_of_large_objects_is_seldom_a_step(void **state)
{
	(void)state;
	need_plain_build();

	random_state = 18;
	for (size_t rounds = 8; rounds <= 32; rounds *= 2) {
		double steps = 0;
		for (int i = 0; i < TRIALS; i++)
			steps += (simulate_pool(rounds).kind == GROWTH_JUMP) / (double)TRIALS;
		if (steps > 0.15)
			fail_msg("%zu points: %.3f are steps", rounds, steps);
	}
}

/* Few objects that are all sampled, such as those of many MiB. */
static struct growth simulate_few_whole(size_t rounds, double mean, double survival)
{
	const struct growth_objects objects = { .weight = 1, .min_weight = 1 };
	struct growth_point points[64];
	struct growth growth = { 0 };
	unsigned count = poisson(mean);

	for (size_t i = 0; i < rounds; i++) {
		points[i] = (struct growth_point){ (double)i, count, 0, 0 };
		count = survivors(count, survival) + poisson(mean * (1 - survival));
	}
	assert_true(growth_fit(points, rounds, &objects, &growth));
	return growth;
}

static void a_part_of_an_object_is_no_step(void **state)
{
	(void)state;
	need_plain_build();

	random_state = 19;
	for (int trial = 0; trial < 4 * TRIALS; trial++) {
		const struct growth growth =
			simulate_few_whole(trial % 2 == 0 ? 16 : 32, 2 + trial % 9, 0.92);
		for (size_t i = 0; i < growth.step_count; i++) {
			const struct growth_step *const step = &growth.steps[i];
			if (!step->is_gradual && !step->is_of_onset && fabs(step->size) < 0.75)
				fail_msg("trial %d: a step of %.2f objects", trial, step->size);
		}
	}
}

static void one_change_is_no_growth(void **state)
{
	(void)state;
	need_plain_build();

	for (size_t rounds = 3; rounds <= 32; rounds++) {
		for (size_t end = 1; end < rounds; end++) {
			const size_t ends[] = { end, SIZE_MAX };
			for (double height = 1; height <= 5; height++) {
				const double up[] = { 0, height }, down[] = { height, 0 };
				const struct growth risen = fit_levels(rounds, up, ends);
				const struct growth fallen = fit_levels(rounds, down, ends);
				assert_true(risen.kind == GROWTH_NONE || risen.kind == GROWTH_JUMP);
				assert_true(
					fallen.kind == GROWTH_NONE || fallen.kind == GROWTH_JUMP);
			}
		}
	}
}

static void two_deploys_are_two_steps(void **state)
{
	(void)state;
	static const double levels[] = { 128, 192, 256 };
	static const size_t ends[] = { 10, 21, SIZE_MAX };
	const struct growth growth = fit_levels(32, levels, ends);

	assert_int_equal(growth.kind, GROWTH_JUMP);
	assert_int_equal(growth.step_count, 2);
	assert_true(growth.steps[0].hours == 9.5 && growth.steps[1].hours == 20.5);
	assert_true(growth.steps[0].size == 64 && growth.steps[1].size == 64);
}

static void steps_in_adjacent_intervals_are_steps(void **state)
{
	(void)state;
	need_plain_build();
	static const double levels[] = { 128, 192, 256 };

	for (size_t rounds = 4; rounds <= 32; rounds++) {
		for (size_t end = 1; end + 3 <= rounds; end++) {
			const size_t ends[] = { end, end + 1, SIZE_MAX };
			const struct growth growth = fit_levels(rounds, levels, ends);
			assert_int_equal(growth.kind, GROWTH_JUMP);
			assert_false(growth.may_go_on);
			if (growth.step_count == 2)
				assert_true(
					growth.steps[0].size == 64 && growth.steps[1].size == 64);
			else
				assert_true(growth.steps[0].is_gradual);
		}
	}
}

static void a_leak_that_pauses_is_no_row_of_steps(void **state)
{
	(void)state;
	static const double levels[] = { 128, 192, 256, 320, 384 };

	for (size_t rounds = 8; rounds <= 32; rounds++) {
		const size_t ends[] = { rounds - 5, rounds - 4, rounds - 3, rounds - 2, SIZE_MAX };
		const struct growth growth = fit_levels(rounds, levels, ends);
		assert_int_equal(growth.kind, GROWTH_STEADY);
		assert_false(growth.goes_on);
	}
}

static void what_never_falls_does_not_swing(void **state)
{
	(void)state;
	static const double values[] = { 128, 256, 256, 256, 384, 512, 544, 544 };
	struct growth_point points[8];
	struct growth growth;

	for (size_t i = 0; i < 8; i++)
		points[i] = (struct growth_point){ (double)i, values[i], values[i], 0 };
	assert_true(growth_fit(points, 8, NULL, &growth));
	assert_true(growth.period_hours == 0);
}

static void a_step_needs_a_level_after_it(void **state)
{
	(void)state;
	static const double levels[] = { 128, 228, 328, 428 };
	static const size_t ends[] = { 5, 6, 7, SIZE_MAX };
	const struct growth growth = fit_levels(8, levels, ends);

	assert_int_equal(growth.kind, GROWTH_STEADY);
	assert_true(growth.has_onset && growth.onset_hours == 4);
	assert_true(growth.low < 100 && 100 < growth.high);
}

static void a_step_beside_the_first_point_is_a_step(void **state)
{
	(void)state;
	static const double levels[] = { 128, 256 };
	static const size_t ends[] = { 1, SIZE_MAX };

	for (size_t rounds = 5; rounds <= 16; rounds++) {
		const struct growth growth = fit_levels(rounds, levels, ends);
		assert_int_equal(growth.kind, GROWTH_JUMP);
		assert_false(growth.may_go_on);
		assert_true(growth.steps[0].hours == 0.5 && growth.steps[0].size == 128);
	}
}

static void a_rise_before_the_last_point_accuses_no_site(void **state)
{
	(void)state;
	static const double levels[] = { 128, 256 };

	for (size_t rounds = 5; rounds <= 64; rounds++) {
		const size_t ends[] = { rounds - 1, SIZE_MAX };
		const struct growth growth = fit_levels(rounds, levels, ends);
		assert_int_equal(growth.kind, GROWTH_JUMP);
		assert_true(growth.may_go_on);
		assert_int_equal(growth.step_count, 1);
		assert_true(growth.steps[0].hours == (double)rounds - 1.5);
	}
}

static void a_step_is_what_the_growth_beside_it_has_not_added(void **state)
{
	(void)state;
	struct growth_point points[32];
	struct growth growth = { 0 };

	/* 400 at once, beside 40 an hour. */
	for (size_t i = 0; i < 32; i++) {
		const double value = 100 + 40 * (double)i + (i > 12 ? 400 : 0);
		points[i] = (struct growth_point){ (double)i, value, value, 0 };
	}
	assert_true(growth_fit(points, 32, NULL, &growth));
	assert_int_equal(growth.kind, GROWTH_STEADY);
	assert_int_equal(growth.step_count, 1);
	assert_true(fabs(growth.rate - 40) < 1);
	assert_true(fabs(growth.steps[0].size - 400) < 20);
}

static void what_falls_from_the_middle_on_is_no_step(void **state)
{
	(void)state;
	struct growth_point points[16];
	struct growth growth = { 0 };

	for (size_t i = 0; i < 16; i++) {
		const double value = 600 - 50 * fmax((double)i - 7.5, 0);
		points[i] = (struct growth_point){ (double)i, value, value, 0 };
	}
	assert_true(growth_fit(points, 16, NULL, &growth));
	assert_int_equal(growth.kind, GROWTH_FALL);
	assert_true(growth.has_onset && growth.onset_hours == 7);
	assert_true(growth.low < -50 && -50 < growth.high);
}

static void neither_unit_of_time_nor_of_value_counts(void **state)
{
	(void)state;
	/* Of a real program: level, and a leak that began between two profiles. */
	static const double values[] = { 246, 246, 246, 246, 246, 246, 246, 246, 246, 246, 246, 246,
		246, 246, 251, 306, 360, 425, 485, 540, 593, 644, 701, 744, 794, 852, 888, 958,
		1010 };
	static const double units[] = { 1, 4096, 1e6, 1e-3 }, hours[] = { 1, 1.0 / 3600, 24 };
	enum { COUNT = sizeof values / sizeof values[0] };
	struct growth_point points[COUNT];
	struct growth growth;

	for (size_t u = 0; u < 4; u++) {
		for (size_t h = 0; h < 3; h++) {
			for (size_t i = 0; i < COUNT; i++)
				points[i] = (struct growth_point){ hours[h] * (double)i,
					units[u] * values[i], units[u] * units[u] * values[i], 0 };
			assert_true(growth_fit(points, COUNT, NULL, &growth));
			assert_int_equal(growth.kind, GROWTH_STEADY);
			assert_true(growth.has_onset);
			assert_true(fabs(growth.onset_hours / hours[h] - 14) < 1.01);
		}
	}
}

static void a_step_and_a_leak_after_it_are_growth(void **state)
{
	(void)state;
	struct growth_point points[24];
	struct growth growth;

	random_state = 10;
	for (int trial = 0; trial < 20; trial++) {
		unsigned count = 128;
		for (size_t i = 0; i < 24; i++) {
			count += i == 12 ? 64 : i > 12 ? poisson(15) : 0;
			points[i] = (struct growth_point){ (double)i, count, count, 0 };
		}
		assert_true(growth_fit(points, 24, NULL, &growth));
		assert_int_equal(growth.kind, GROWTH_STEADY);
		assert_true(growth.p < 0.001 && growth.has_onset);
		assert_true(fabs(growth.onset_hours - 11.5) <= 1.5);
	}
}

static void what_fills_after_the_start_is_no_leak(void **state)
{
	(void)state;
	struct growth_point points[32];
	struct growth growth;

	random_state = 11;
	for (int trial = 0; trial < 50; trial++) {
		unsigned count = 0;
		for (size_t i = 0; i < 32; i++) {
			/* Lifetimes of three hours. */
			count = survivors(count, exp(-1.0 / 3)) +
				poisson(128 * (1 - exp(-1.0 / 3)));
			points[i] = (struct growth_point){ (double)i, count, count, 0 };
		}
		assert_true(growth_fit(points, 32, NULL, &growth));
		assert_int_not_equal(growth.kind, GROWTH_STEADY);
	}
}

/* Objects of `size` times the sampling interval that come and go, each for three hours. */
static struct growth fit_large(double live, double size, size_t rounds, double *truth)
{
	const double p = 1 - exp(-size), kept = exp(-1.0 / 3);
	const double variance = size * size * (1 - p) / (p * p);
	const struct growth_objects objects = { .weight = size / p };
	struct growth_point points[64];
	struct growth growth = { 0 };
	/* Recorded ones and others come and go independently. */
	unsigned recorded = poisson(live * p), others = poisson(live * (1 - p));
	double tt = 0, ty = 0;

	for (size_t i = 0; i < rounds; i++) {
		const double centered = (double)i - (double)(rounds - 1) / 2;
		if (i != 0) {
			recorded = survivors(recorded, kept) + poisson(live * p * (1 - kept));
			others = survivors(others, kept) + poisson(live * (1 - p) * (1 - kept));
		}
		points[i] = (struct growth_point){ (double)i, recorded * size / p,
			recorded * variance, 0 };
		tt += centered * centered;
		ty += centered * size * (recorded + others);
	}
	assert_true(growth_fit(points, rounds, &objects, &growth));
	*truth = ty / tt;
	return growth;
}

static void few_large_objects_that_come_and_go_are_no_leak(void **state)
{
	(void)state;
	need_plain_build();
	enum { TRENDS = 300, SITES = 3 };
	static const struct {
		double size;
		size_t rounds;
	} cases[] = { { 2, 5 }, { 2, 8 }, { 1, 8 }, { 2, 16 } };

	random_state = 12;
	for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
		double named = 0;
		for (int trend = 0; trend < TRENDS; trend++) {
			bool is_named = false;
			for (int site = 0; site < SITES; site++) {
				double truth;
				const struct growth growth =
					fit_large(32, cases[c].size, cases[c].rounds, &truth);
				is_named |=
					growth.kind == GROWTH_STEADY && growth.p * SITES <= 0.05;
			}
			named += is_named / (double)TRENDS;
		}
		/* 5%, and three standard errors. */
		if (named > 0.05 + 0.038)
			fail_msg("objects of %g intervals, %zu profiles: %.3f name one",
				cases[c].size, cases[c].rounds, named);
	}
}

static void holds_the_truth_of_few_large_objects(void **state)
{
	(void)state;
	need_plain_build();
	random_state = 13;
	for (size_t rounds = 5; rounds <= 32; rounds += rounds / 2) {
		double held = 0;
		for (int i = 0; i < TRIALS; i++) {
			double truth;
			const struct growth growth = fit_large(16, 2, rounds, &truth);
			/* A few onsets are seen where there is none. */
			held += growth.has_onset || (growth.low <= truth && truth <= growth.high);
		}
		if (held < 0.88 * TRIALS)
			fail_msg("%zu profiles: %.3f", rounds, held / TRIALS);
	}
}

static void a_sawtooth_of_few_periods_is_not_sure_of_its_rate(void **state)
{
	(void)state;
	need_plain_build();
	random_state = 14;
	assert_true(held_of_a_saw(16, 6.5) > 0.9);
	assert_true(held_of_a_saw(32, 6.75) > 0.88);
}

/* What comes and goes one by one does not fluctuate, however long a series is. */
static void ups_and_downs_beyond_traffic_fluctuate(void **state)
{
	(void)state;
	need_plain_build();
	static const size_t rounds[] = { 4, 8, 32, 300 };

	random_state = 58;
	for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
		unsigned fluctuating = 0;
		for (int trial = 0; trial < TRIALS; trial++) {
			const struct heap heap = { 20, 60, 0.3, 0, rounds[i] };
			fluctuating += simulate(&heap).fluctuates;
		}
		assert_true(fluctuating <= TRIALS / 50);
	}
	struct growth_point points[720];
	struct growth growth;
	for (size_t i = 0; i < 720; i++) {
		const double value = 64 + 48 * sin(2 * M_PI * (double)i / 24);
		points[i] = (struct growth_point){ (double)i, value, value, 0 };
	}
	assert_true(growth_fit(points, 720, NULL, &growth));
	assert_int_equal(growth.kind, GROWTH_NONE);
	assert_true(growth.fluctuates);
	/* One profile of twenty. */
	for (size_t i = 0; i < 20; i++)
		points[i].value = points[i].variance = i == 9 ? 150 : 50;
	assert_true(growth_fit(points, 20, NULL, &growth));
	assert_int_equal(growth.kind, GROWTH_NONE);
	assert_true(growth.fluctuates);
}

/* Few profiles do not tell by themselves whether objects are replaced. */
static void arrivals_tell_how_long_objects_live(void **state)
{
	(void)state;
	static const double values[] = { 100, 103, 101, 104 };
	struct growth_objects objects = { .weight = 1, .has_arrivals = true, .live = 102 };
	struct growth_point points[4];
	struct growth lasting, fleeting;

	for (unsigned i = 0; i < 4; i++)
		points[i] = (struct growth_point){ i, values[i], values[i], 0 };
	objects.arrivals = 8;
	assert_true(growth_fit(points, 4, &objects, &lasting));
	objects.arrivals = 600;
	assert_true(growth_fit(points, 4, &objects, &fleeting));
	assert_true(lasting.high - lasting.low < (fleeting.high - fleeting.low) / 1.5);
}

/* Exact, of sampled objects of weight 1: 1000 that stay, and 50 an hour from one hour to another.
 */
static struct growth fit_growth_between(double begin, double end, size_t count)
{
	struct growth_point points[64];
	struct growth growth;

	for (size_t i = 0; i < count; i++) {
		const double hours = (double)i;
		const double value = 1000 + 50 * (fmin(fmax(hours, begin), end) - begin);
		points[i] = (struct growth_point){ hours, value, value, 0 };
	}
	assert_true(growth_fit(points, count, NULL, &growth));
	return growth;
}

static void growth_that_ended_a_while_ago_has_an_end(void **state)
{
	(void)state;
	/* Not yet level for half as long as it grew. */
	struct growth growth = fit_growth_between(8, 26, 32);
	assert_int_equal(growth.kind, GROWTH_STEADY);
	assert_true(growth.has_end && !growth.goes_on && fabs(growth.end_hours - 26) <= 1);
	assert_true(growth.end_low <= 26 && growth.end_high >= 26);
	assert_true(growth.has_onset && fabs(growth.onset_hours - 8) <= 1);
	assert_true(growth.low <= 50 && growth.high >= 50);

	growth = fit_growth_between(0, 26, 32);
	assert_int_equal(growth.kind, GROWTH_STEADY);
	assert_true(growth.has_end && !growth.has_onset && fabs(growth.end_hours - 26) <= 1);
	assert_true(growth.low <= 50 && growth.high >= 50);
}

static void growth_to_the_last_point_has_no_end(void **state)
{
	(void)state;
	const struct growth growth = fit_growth_between(8, 31, 32);

	assert_true(growth.has_onset && growth.goes_on && !growth.has_end);
	assert_true(growth.end_hours == 31 && growth.end_low == 31 && growth.end_high == 31);
}

/* Two deploys within two hours may be a leak that has just ended, but none that still grows. */
static void what_has_not_changed_since_is_not_still_growing(void **state)
{
	(void)state;
	static const double levels[] = { 128, 192, 256, 320 };
	static const size_t ends[] = { 12, 13, 14, 16 };
	const struct growth growth = fit_levels(16, levels, ends);

	assert_true(growth.has_onset && !growth.has_end && !growth.goes_on);
	assert_true(growth.end_low == 14 && growth.end_high == 15);
}

/* The last interval is level: no drop beside growth. */
static void a_pause_is_no_step_against_the_growth(void **state)
{
	(void)state;
	static const double levels[] = { 128, 192, 256, 320, 384 };
	static const size_t ends[] = { 11, 15, 29, 30, 32 };
	const struct growth growth = fit_levels(32, levels, ends);

	assert_int_equal(growth.falls, 0);
	for (size_t i = 0; i < growth.step_count; i++)
		assert_true(growth.steps[i].size >= 0);
	assert_false(growth.goes_on);
}

/* A few samples that come one by one. */
static void less_than_a_sample_a_point_has_an_onset_and_no_steps(void **state)
{
	(void)state;
	static const double series[][32] = {
		{ 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 11, 11, 13, 13, 13, 13,
			13, 14, 14, 14, 15, 16, 17, 17, 17, 19, 19, 19 },
		{ 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 7, 8, 8, 9, 11, 11,
			11, 11, 11, 12, 14, 14 },
	};

	for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
		struct growth_point points[32];
		struct growth growth;
		for (size_t j = 0; j < 32; j++)
			points[j] =
				(struct growth_point){ (double)j, series[i][j], series[i][j], 0 };
		assert_true(growth_fit(points, 32, NULL, &growth));
		assert_int_equal(growth.kind, GROWTH_STEADY);
		assert_true(growth.has_onset && growth.step_count == 0);
		assert_true(series[i][(size_t)growth.onset_hours - 2] == series[i][0]);
	}
}

/* Objects that come one by one and stay, from `begin` on, and steps of `step` before some points.
 */
static struct growth simulate_leak(double begin, double rate, size_t rounds, const size_t *steps,
	size_t step_count, double step)
{
	struct growth_point points[1000];
	struct growth growth = { 0 };
	double value = poisson(64);

	for (size_t i = 0; i < rounds; i++) {
		value += (double)i > begin ? poisson(rate) : 0;
		for (size_t j = 0; j < step_count; j++)
			value += i == steps[j] ? step : 0;
		points[i] = (struct growth_point){ (double)i, value, value, 0 };
	}
	assert_true(growth_fit(points, rounds, NULL, &growth));
	return growth;
}

static void a_leak_has_no_steps_by_chance(void **state)
{
	(void)state;
	need_plain_build();
	static const size_t rounds[] = { 5, 16, 40, 100 };

	random_state = 51;
	for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
		const double count = (double)rounds[i];
		unsigned with_steps = 0;
		for (int trial = 0; trial < TRIALS; trial++) {
			struct growth_step own[GROWTH_MAX_STEPS];
			const double begin = trial % 2 == 0 ? 0 : count / 2;
			const struct growth growth =
				simulate_leak(begin, 240 / count, rounds[i], NULL, 0, 0);
			with_steps += growth_own_steps(&growth, own) > 0;
		}
		if (with_steps > TRIALS / 10)
			fail_msg("%u of %d leaks of %zu points have a step", with_steps, TRIALS,
				rounds[i]);
	}
}

/* Of so many profiles that the noise of what comes and goes is averaged, and steps are sought. */
static void a_leak_beside_traffic_has_no_steps_by_chance(void **state)
{
	(void)state;
	need_plain_build();
	static const size_t rounds[] = { 100, 300, 1000 };

	random_state = 57;
	for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
		unsigned with_steps = 0, grew = 0;
		for (int trial = 0; trial < TRIALS; trial++) {
			struct growth_step own[GROWTH_MAX_STEPS];
			const struct heap heap = { 50, 50, 0.6, 60 / (double)rounds[i], rounds[i] };
			const struct growth growth = simulate(&heap);
			grew += growth.kind == GROWTH_STEADY;
			with_steps +=
				growth.kind == GROWTH_STEADY && growth_own_steps(&growth, own) > 0;
		}
		if (grew < TRIALS / 2 || with_steps > grew / 10)
			fail_msg("%u of %u leaks of %zu points have a step", with_steps, grew,
				rounds[i]);
	}
}

/* Of so many that several are averaged to one. */
static void many_profiles_do_not_hide_a_leak_behind_a_step(void **state)
{
	(void)state;
	static const size_t rounds[] = { 65, 100, 500, 1000 };

	random_state = 52;
	for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
		const size_t step = rounds[i] * 43 / 100;
		const struct growth growth =
			simulate_leak(0, 200 / (double)rounds[i], rounds[i], &step, 1, 128);
		assert_int_equal(growth.kind, GROWTH_STEADY);
		assert_true(growth.p < 1e-6);
		const struct growth_step *const largest = growth_largest_step(&growth);
		assert_true(fabs(largest->hours - ((double)step - 0.5)) <= 0.01);
		assert_true(fabs(largest->lasted_hours - 1) <= 0.01);
		assert_true(fabs(largest->size - 128) <= 25);
	}
}

static void steps_of_many_profiles_are_as_high_as_they_were(void **state)
{
	(void)state;
	static const size_t steps[] = { 1, 300, 613, 999 };

	random_state = 53;
	const struct growth growth = simulate_leak(0, 0, 1000, steps, 4, 64);

	assert_int_equal(growth.kind, GROWTH_JUMP);
	assert_int_equal(growth.step_count, 4);
	for (size_t i = 0; i < growth.step_count; i++) {
		assert_true(fabs(growth.steps[i].hours - ((double)steps[i] - 0.5)) <= 0.01);
		assert_true(fabs(growth.steps[i].size - (64)) <= 0.01);
	}
	assert_true(growth.may_go_on);
}

static double two_teeth(double t)
{
	return 64 + fmod(t, 20) * 9;
}

static void what_fell_back_between_two_rises_is_no_growth(void **state)
{
	(void)state;
	const struct growth growth = fit(two_teeth, 40);

	assert_int_equal(growth.kind, GROWTH_NONE);
}

static double ever_slower(double t)
{
	return 64 + 60 * log1p(t / 2);
}

static double up_and_down(double t)
{
	return 64 + 8 * (t < 19 ? t : t < 38 ? 38 - t : 0);
}

static void a_rise_that_goes_on_has_no_level_after_it(void **state)
{
	(void)state;
	struct growth growth = fit(ever_slower, 40);

	for (size_t i = 0; i < growth.step_count; i++)
		assert_true(!growth.steps[i].is_gradual || growth.steps[i].goes_on_slower);
	growth = fit(up_and_down, 40);
	assert_true(growth.kind != GROWTH_JUMP || growth.steps[growth.step_count - 1].size < 0);
}

static void a_step_before_a_restart_is_over(void **state)
{
	(void)state;
	struct growth_point points[20];
	struct growth growth;

	for (size_t i = 0; i < 20; i++) {
		const double value = i < 9 ? 64 : 128;
		points[i] = (struct growth_point){ (double)i, value, value, i < 10 ? 0 : 1 };
	}
	assert_true(growth_fit(points, 20, NULL, &growth));
	assert_int_equal(growth.kind, GROWTH_JUMP);
	assert_false(growth.may_go_on);
}

static void one_large_object_since_a_restart_is_a_step(void **state)
{
	(void)state;
	const struct growth_objects objects = { .weight = 1e8, .live = 0.5 };
	struct growth_point points[20];
	struct growth growth;

	for (size_t i = 0; i < 20; i++)
		points[i] = (struct growth_point){ (double)i, i < 10 ? 0 : 1e8, 0, i < 10 ? 0 : 1 };
	assert_true(growth_fit(points, 20, &objects, &growth));
	growth_add_restarts(points, 20, &objects, &growth);
	assert_int_equal(growth.kind, GROWTH_JUMP);
	assert_true(growth.steps[0].is_restart);
}

/* What comes and goes, and in the last intervals so much more in each that it is growth. */
static struct growth simulate_late_growth(size_t rounds, double rate)
{
	struct growth_point points[300];
	struct growth growth = { 0 };
	unsigned leaked = 0;

	for (size_t i = 0; i < rounds; i++) {
		leaked += i + 2 >= rounds ? poisson(rate) : 0;
		const double value = poisson(90) + leaked;
		points[i] = (struct growth_point){ (double)i, value, value, 0 };
	}
	assert_true(growth_fit(points, rounds, NULL, &growth));
	return growth;
}

static void no_step_takes_more_than_was_there(void **state)
{
	(void)state;
	need_plain_build();
	static const size_t rounds[] = { 8, 100, 300 };

	random_state = 59;
	for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
		for (int trial = 0; trial < TRIALS / 2; trial++) {
			const struct growth growth = simulate_late_growth(rounds[i], 200);
			struct growth_step own[GROWTH_MAX_STEPS];
			const size_t count = growth_own_steps(&growth, own);
			for (size_t j = 0; j < count; j++) {
				if (own[j].size < -60)
					fail_msg("%zu points, trial %d: a step of %.0f", rounds[i],
						trial, own[j].size);
			}
		}
	}
}

static void growth_that_began_a_point_later_has_no_step_against_it(void **state)
{
	(void)state;
	static const double values[] = { 87, 87, 100, 82, 102, 75, 273, 501 };
	struct growth_point points[8];
	struct growth growth;

	for (size_t i = 0; i < 8; i++)
		points[i] = (struct growth_point){ (double)i, values[i], values[i], 0 };
	struct growth_step own[GROWTH_MAX_STEPS];
	assert_true(growth_fit(points, 8, NULL, &growth));
	assert_int_equal(growth_own_steps(&growth, own), 0);
	assert_true(growth.has_onset && growth.onset_hours == 5);
}

static void holds_the_truth_of_an_onset(void **state)
{
	(void)state;
	need_plain_build();
	random_state = 60;
	for (size_t rounds = 8; rounds <= 32; rounds *= 2) {
		unsigned held = 0;
		for (int i = 0; i < TRIALS; i++) {
			const double onset = (0.25 + 0.45 * chance()) * (double)(rounds - 1);
			const struct growth growth = fit_onset(64, rounds, onset, 24);
			assert_true(growth.has_onset && growth.onset_high >= growth.onset_low + 1);
			held += growth.onset_low <= onset && onset <= growth.onset_high;
		}
		if (held < 0.93 * TRIALS)
			fail_msg("%zu points: %u of %d", rounds, held, TRIALS);
	}
}

static struct growth fit_values(const double *values, size_t count)
{
	struct growth_point points[64];
	struct growth growth = { 0 };

	for (size_t i = 0; i < count; i++)
		points[i] = (struct growth_point){ (double)i, values[i], values[i], 0 };
	assert_true(growth_fit(points, count, NULL, &growth));
	return growth;
}

/* Growth beside a step up and one down fits these points best, but without it a step does. */
static void a_step_of_what_comes_and_goes_accuses_no_site(void **state)
{
	(void)state;
	static const double found[][16] = {
		{ 246, 253, 254, 263, 256, 252, 244, 240, 250, 254, 251, 257, 257, 270, 513, 480 },
		{ 238, 253, 259, 261, 262, 253, 242, 231, 253, 255, 238, 238, 224, 243, 522, 481 },
	};

	for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
		const struct growth growth = fit_values(found[i], 16);
		assert_int_equal(growth.kind, GROWTH_JUMP);
		assert_int_equal(growth.step_count, 1);
		assert_true(growth.steps[0].hours == 13.5);
	}
}

/* Two steps are the same as a line through the last points, and each profile of many counts. */
static void two_risen_points_at_the_end_may_be_steps(void **state)
{
	(void)state;
	static const double levels[] = { 87, 273, 447, 640 };
	static const size_t rounds[] = { 8, 20, 64, 100, 300, 1000 };

	for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
		struct growth_point points[1000];
		struct growth growth;
		for (size_t j = 0; j < rounds[i]; j++) {
			const double value = j + 2 < rounds[i] ? 87 : levels[j + 3 - rounds[i]];
			points[j] = (struct growth_point){ (double)j, value, value, 0 };
		}
		assert_true(growth_fit(points, rounds[i], NULL, &growth));
		assert_int_equal(growth.kind, GROWTH_STEADY);
		assert_true(growth.has_onset && growth.may_be_step && !growth.goes_on);
	}
	const size_t ends[] = { 17, 18, 19, SIZE_MAX };
	const struct growth three = fit_levels(20, levels, ends);
	assert_int_equal(three.kind, GROWTH_STEADY);
	assert_true(three.has_onset && !three.may_be_step && three.goes_on);
}

static void a_row_of_steps_does_not_swing(void **state)
{
	(void)state;
	static const double five_levels[] = { 106, 84, 85, 109, 219, 193, 196, 201, 353, 342, 324,
		331, 401, 459, 452, 447, 561, 541, 523, 541 };
	static const double rising[] = { 106, 142, 260, 291, 368, 468, 487, 474 };
	struct growth growth = fit_values(five_levels, 20);

	assert_int_equal(growth.kind, GROWTH_JUMP);
	assert_int_equal(growth.step_count, 4);
	growth = fit_values(rising, 8);
	assert_true(growth.period_hours == 0);

	random_state = 61;
	unsigned swings = 0;
	for (int trial = 0; trial < TRIALS; trial++) {
		double values[20];
		for (size_t i = 0; i < 20; i++) {
			const size_t stair = i / 4;
			values[i] = poisson(100 + 115 * (double)stair);
		}
		swings += fit_values(values, 20).period_hours > 0;
	}
	assert_true(swings <= TRIALS / 20);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(two_risen_points_at_the_end_may_be_steps),
	cmocka_unit_test(a_row_of_steps_does_not_swing),
	cmocka_unit_test(holds_the_truth_of_an_onset),
	cmocka_unit_test(no_step_takes_more_than_was_there),
	cmocka_unit_test(growth_that_began_a_point_later_has_no_step_against_it),
	cmocka_unit_test(a_leak_has_no_steps_by_chance),
	cmocka_unit_test(a_leak_beside_traffic_has_no_steps_by_chance),
	cmocka_unit_test(many_profiles_do_not_hide_a_leak_behind_a_step),
	cmocka_unit_test(steps_of_many_profiles_are_as_high_as_they_were),
	cmocka_unit_test(what_fell_back_between_two_rises_is_no_growth),
	cmocka_unit_test(a_rise_that_goes_on_has_no_level_after_it),
	cmocka_unit_test(a_step_before_a_restart_is_over),
	cmocka_unit_test(one_large_object_since_a_restart_is_a_step),
	cmocka_unit_test(growth_that_ended_a_while_ago_has_an_end),
	cmocka_unit_test(growth_to_the_last_point_has_no_end),
	cmocka_unit_test(what_has_not_changed_since_is_not_still_growing),
	cmocka_unit_test(a_pause_is_no_step_against_the_growth),
	cmocka_unit_test(less_than_a_sample_a_point_has_an_onset_and_no_steps),
	cmocka_unit_test(holds_the_truth_of_a_leak),
	cmocka_unit_test(holds_the_truth_of_what_is_turned_over),
	cmocka_unit_test(holds_the_truth_of_swings),
	cmocka_unit_test(holds_the_truth_of_swings_beside_a_hole),
	cmocka_unit_test(knows_a_fold_that_is_not_quite_right),
	cmocka_unit_test(finds_a_leak_inside_a_busy_site),
	cmocka_unit_test(tells_shapes_apart),
	cmocka_unit_test(takes_growth_that_ended_for_one_step),
	cmocka_unit_test(sees_growth_below_swings),
	cmocka_unit_test(sees_growth_below_swings_that_begins_late),
	cmocka_unit_test(knows_that_nothing_seen_is_not_nothing),
	cmocka_unit_test(counts_the_rises),
	cmocka_unit_test(counts_the_falls),
	cmocka_unit_test(what_may_have_grown_does_not_fall),
	cmocka_unit_test(averages_long_series),
	cmocka_unit_test(fits_one_rate_across_restarts),
	cmocka_unit_test(a_restart_to_another_level_is_a_step),
	cmocka_unit_test(a_restart_is_reported_beside_the_steps_of_a_run),
	cmocka_unit_test(growth_after_restarts_has_no_steps),
	cmocka_unit_test(a_leak_that_begins_late_is_growth_since_then),
	cmocka_unit_test(no_more_profiles_make_an_onset_harder_to_see),
	cmocka_unit_test(one_small_step_of_what_stays_is_a_step),
	cmocka_unit_test(few_points_of_what_comes_and_goes_are_seldom_a_step),
	cmocka_unit_test(a_pool_of_large_objects_is_seldom_a_step),
	cmocka_unit_test(a_part_of_an_object_is_no_step),
	cmocka_unit_test(one_change_is_no_growth),
	cmocka_unit_test(two_deploys_are_two_steps),
	cmocka_unit_test(steps_in_adjacent_intervals_are_steps),
	cmocka_unit_test(a_leak_that_pauses_is_no_row_of_steps),
	cmocka_unit_test(what_never_falls_does_not_swing),
	cmocka_unit_test(a_step_needs_a_level_after_it),
	cmocka_unit_test(a_step_beside_the_first_point_is_a_step),
	cmocka_unit_test(a_rise_before_the_last_point_accuses_no_site),
	cmocka_unit_test(a_step_of_what_comes_and_goes_accuses_no_site),
	cmocka_unit_test(a_step_is_what_the_growth_beside_it_has_not_added),
	cmocka_unit_test(what_falls_from_the_middle_on_is_no_step),
	cmocka_unit_test(neither_unit_of_time_nor_of_value_counts),
	cmocka_unit_test(a_step_and_a_leak_after_it_are_growth),
	cmocka_unit_test(what_fills_after_the_start_is_no_leak),
	cmocka_unit_test(few_large_objects_that_come_and_go_are_no_leak),
	cmocka_unit_test(holds_the_truth_of_few_large_objects),
	cmocka_unit_test(a_sawtooth_of_few_periods_is_not_sure_of_its_rate),
	cmocka_unit_test(ups_and_downs_beyond_traffic_fluctuate),
	cmocka_unit_test(arrivals_tell_how_long_objects_live),
	cmocka_unit_test(refuses_what_is_too_short),
	cmocka_unit_test(has_no_trouble_with_nothing),
};

UNIT_MAIN(tests)
