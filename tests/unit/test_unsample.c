/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/unsample.h"

#include <math.h>
#include <stdbool.h>

#include "unit.h"

#define assert_near(value, wanted, tolerance)                                        \
	do {                                                                         \
		const double value_ = (value);                                       \
		const double wanted_ = (wanted);                                     \
		if (!(fabs(value_ - wanted_) <= (tolerance)))                        \
			fail_msg("%s is %.17g, not %.17g", #value, value_, wanted_); \
	} while (0)

static struct estimate estimate_of(enum profile_weighting weighting, uint64_t interval_bytes,
	double objects, double bytes, enum profile_counter counter)
{
	const struct profile profile = { .weighting = weighting, .interval_bytes = interval_bytes };
	const double counters[PROFILE_COUNTERS] = {
		[PROFILE_INUSE_OBJECTS] = objects,
		[PROFILE_INUSE_SPACE] = bytes,
		[PROFILE_ALLOC_OBJECTS] = objects,
		[PROFILE_ALLOC_SPACE] = bytes,
	};
	struct estimate estimates[PROFILE_COUNTERS];

	unsample(&profile, counters, estimates);
	return estimates[counter];
}

static void scales_a_line_by_the_exponential_rule(void **state)
{
	(void)state;
	/* 1 / (1 - exp(-1 / 512)) = 512.50016276... */
	assert_near(
		estimate_of(PROFILE_EXPONENTIAL, 524288, 10, 10240, PROFILE_INUSE_OBJECTS).value,
		5125.0016276, 1e-6);
	assert_near(estimate_of(PROFILE_EXPONENTIAL, 524288, 10, 10240, PROFILE_INUSE_SPACE).value,
		5248001.66666, 1e-4);
	assert_near(estimate_of(PROFILE_EXPONENTIAL, 524288, 10, 10240, PROFILE_ALLOC_SPACE).value,
		5248001.66666, 1e-4);
}

static void keeps_its_precision_for_tiny_objects(void **state)
{
	(void)state;
	/* x / (1 - exp(-x)) = 1 + x / 2 + x^2 / 12 for small x */
	const double x = 8.0 / (1ull << 40);
	const double wanted = (double)(1ull << 40) * (1 + x / 2 + x * x / 12);
	assert_near(estimate_of(PROFILE_EXPONENTIAL, 1ull << 40, 1, 8, PROFILE_INUSE_SPACE).value,
		wanted, 1e-3);
}

static void leaves_objects_far_bigger_than_the_interval_alone(void **state)
{
	(void)state;
	const struct estimate estimate =
		estimate_of(PROFILE_EXPONENTIAL, 4096, 3, 3 * 1048576.0, PROFILE_INUSE_SPACE);
	assert_near(estimate.value, 3 * 1048576.0, 1e-6);
	assert_near(estimate.variance, 0, 1e-6);
	assert_near(estimate.samples, 3, 0);
}

static void scales_by_the_ratio_rule_of_gperftools(void **state)
{
	(void)state;
	/* Half of 1 MiB is the mean distance: a mean of 65536 bytes is recorded one time in 8. */
	assert_near(estimate_of(PROFILE_RATIO, 1048576, 2, 131072, PROFILE_INUSE_OBJECTS).value, 16,
		1e-9);
	/* Objects above the mean distance are always recorded. */
	assert_near(estimate_of(PROFILE_RATIO, 1048576, 2, 2097152, PROFILE_INUSE_SPACE).value,
		2097152, 1e-9);
}

static void leaves_estimates_and_unsampled_figures_alone(void **state)
{
	(void)state;
	assert_near(estimate_of(PROFILE_WEIGHTED, 524288, 100, 6400, PROFILE_INUSE_SPACE).value,
		6400, 0);
	assert_near(
		estimate_of(PROFILE_EXPONENTIAL, 0, 100, 6400, PROFILE_INUSE_SPACE).value, 6400, 0);
	assert_near(
		estimate_of(PROFILE_EXPONENTIAL, 524288, 0, 0, PROFILE_INUSE_SPACE).value, 0, 0);
	/* No object has no size; nothing sensible can be said, and nothing must become infinite. */
	assert_near(
		estimate_of(PROFILE_EXPONENTIAL, 524288, 5, 0, PROFILE_INUSE_OBJECTS).value, 5, 0);
}

static void finds_the_sample_count_behind_an_estimate(void **state)
{
	(void)state;
	const struct estimate recorded =
		estimate_of(PROFILE_EXPONENTIAL, 524288, 10, 10240, PROFILE_INUSE_SPACE);
	const struct estimate weighted = estimate_of(
		PROFILE_WEIGHTED, 524288, 5125.0016276, 5248001.6666, PROFILE_INUSE_SPACE);
	assert_near(weighted.samples, 10, 1e-6);
	assert_near(sqrt(weighted.variance), sqrt(recorded.variance), 1);
}

static void gives_small_objects_the_error_of_their_sample_count(void **state)
{
	(void)state;
	const struct estimate estimate =
		estimate_of(PROFILE_EXPONENTIAL, 524288, 100, 1600, PROFILE_INUSE_SPACE);
	assert_near(sqrt(estimate.variance) / estimate.value, 0.1, 1e-4);
}

static void gives_bytes_and_objects_the_same_relative_error(void **state)
{
	(void)state;
	const struct estimate bytes =
		estimate_of(PROFILE_EXPONENTIAL, 65536, 7, 7 * 40000.0, PROFILE_INUSE_SPACE);
	const struct estimate objects =
		estimate_of(PROFILE_EXPONENTIAL, 65536, 7, 7 * 40000.0, PROFILE_INUSE_OBJECTS);
	assert_near(
		sqrt(bytes.variance) / bytes.value, sqrt(objects.variance) / objects.value, 1e-12);
}

/* A generator with a fixed seed: the test says the same every time. */
static double random_unit(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 11) / 9007199254740992.0;
}

/* How often the interval of a sampled heap holds the truth. */
static double coverage(unsigned objects, double bytes, double interval_bytes)
{
	enum { RUNS = 4000 };
	uint64_t state = 12345;
	unsigned held = 0;

	for (int run = 0; run < RUNS; run++) {
		unsigned recorded = 0;
		for (unsigned i = 0; i < objects; i++)
			recorded += random_unit(&state) < -expm1(-bytes / interval_bytes);
		const struct interval interval = estimate_interval(estimate_of(PROFILE_EXPONENTIAL,
			(uint64_t)interval_bytes, recorded, recorded * bytes, PROFILE_INUSE_SPACE));
		held += interval.low <= objects * bytes && objects * bytes <= interval.high;
	}
	return (double)held / RUNS;
}

static void contains_the_truth_in_95_of_100_intervals(void **state)
{
	(void)state;
	/* About 200, 30 and 10 samples of small objects; objects as big as the interval. */
	assert_near(coverage(2000, 1000, 10000), 0.95, 0.015);
	assert_near(coverage(300, 1000, 10000), 0.95, 0.02);
	assert_near(coverage(100, 1000, 10000), 0.95, 0.025);
	assert_near(coverage(60, 10000, 10000), 0.95, 0.025);
}

static void never_puts_a_positive_estimate_below_zero(void **state)
{
	(void)state;
	const struct interval interval = estimate_interval(
		estimate_of(PROFILE_EXPONENTIAL, 524288, 1, 64, PROFILE_INUSE_SPACE));
	assert_true(interval.low > 0);
	assert_true(interval.high > 5 * 524288);
	assert_true(interval.high < 6 * 524288);
}

static void widens_the_interval_of_a_difference(void **state)
{
	(void)state;
	const struct estimate now =
		estimate_of(PROFILE_EXPONENTIAL, 524288, 400, 25600, PROFILE_INUSE_SPACE);
	const struct estimate base =
		estimate_of(PROFILE_EXPONENTIAL, 524288, 300, 19200, PROFILE_INUSE_SPACE);
	const struct interval interval = estimate_difference_interval(now, base);
	const double sd = sqrt(now.variance + base.variance);
	assert_near((interval.high - interval.low) / (2 * 1.96 * sd), 1, 0.02);
	assert_true(interval.low < now.value - base.value);
	assert_true(interval.high > now.value - base.value);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(scales_a_line_by_the_exponential_rule),
	cmocka_unit_test(keeps_its_precision_for_tiny_objects),
	cmocka_unit_test(leaves_objects_far_bigger_than_the_interval_alone),
	cmocka_unit_test(scales_by_the_ratio_rule_of_gperftools),
	cmocka_unit_test(leaves_estimates_and_unsampled_figures_alone),
	cmocka_unit_test(finds_the_sample_count_behind_an_estimate),
	cmocka_unit_test(gives_small_objects_the_error_of_their_sample_count),
	cmocka_unit_test(gives_bytes_and_objects_the_same_relative_error),
	cmocka_unit_test(contains_the_truth_in_95_of_100_intervals),
	cmocka_unit_test(never_puts_a_positive_estimate_below_zero),
	cmocka_unit_test(widens_the_interval_of_a_difference),
};

UNIT_MAIN(tests)
