/* SPDX-License-Identifier: Apache-2.0 */
#include "render/render_trend.h"

#include "unit.h"

enum { COUNT = 5 };
static const double mib = 1 << 20;

/* Hourly profiles of 64 to 68 MiB. */
static const char *describe_profiles(const struct growth *growth, size_t count)
{
	static struct trend_words words;
	double hours[COUNT];
	struct estimate values[COUNT];
	bool is_warm_up[COUNT] = { false };

	for (size_t i = 0; i < COUNT; i++) {
		hours[i] = (double)i;
		values[i] = (struct estimate){ .value = (64 + (double)i) * mib };
	}
	struct view view = { .kind = PROFILE_HEAP, .counter = PROFILE_INUSE_SPACE };
	const struct trend trend = { .view = &view,
		.profile_count = count,
		.hours = hours,
		.is_warm_up = is_warm_up,
		.has_times = true };
	const struct trend_site site = { .series = values, .growth = *growth, .has_growth = true };
	words = trend_describe_growth(&trend, &site);
	return words.text;
}

static const char *describe(const struct growth *growth)
{
	return describe_profiles(growth, COUNT);
}

static void a_rate_and_its_error_have_one_unit(void **state)
{
	(void)state;
	const struct growth growth = { .kind = GROWTH_STEADY,
		.rate = 1.7 * mib,
		.low = 0.9 * mib,
		.high = 2.5 * mib,
		.rises = 4,
		.intervals = 4 };

	assert_string_equal(describe(&growth), "+1.7 ± 0.8 MiB/h, grew in 4 of 4 intervals");
}

static void what_is_shown_as_0_has_no_sign(void **state)
{
	(void)state;
	struct growth growth = { .kind = GROWTH_CYCLE,
		.period_hours = 8,
		.rate = -0.04 * mib,
		.low = -mib,
		.high = mib };

	assert_string_equal(describe(&growth), "comes and goes about every 8 h (0.0 ± 1.0 MiB/h)");
	growth.rate = -0.4;
	growth.low = -51;
	growth.high = 51;
	assert_string_equal(describe(&growth), "comes and goes about every 8 h (0 ± 51 B/h)");
}

static void what_falls_is_not_said_to_have_grown(void **state)
{
	(void)state;
	struct growth growth = { .kind = GROWTH_FALL,
		.rate = -2 * mib,
		.low = -3 * mib,
		.high = -1 * mib,
		.rises = 1,
		.falls = 2,
		.intervals = 4 };

	assert_string_equal(describe(&growth), "-2.0 ± 1.0 MiB/h, fell in 2 of 4 intervals");
	growth.averaged = 3;
	assert_string_equal(describe(&growth), "-2.0 ± 1.0 MiB/h, fell in 2 of 4 intervals "
					       "between averages of about 3 profiles");
}

static void what_falls_later_is_reported_to_fall(void **state)
{
	(void)state;
	const struct growth growth = { .kind = GROWTH_FALL,
		.rate = -2 * mib,
		.low = -3 * mib,
		.high = -1 * mib,
		.has_onset = true,
		.onset_hours = 3,
		.onset_low = 3,
		.onset_high = 3,
		.goes_on = true };

	assert_string_equal(describe(&growth),
		"falls since 3 h after the start: -2.0 ± 1.0 MiB/h, still falling");
}

static void growth_is_not_called_continuing_where_it_may_have_ended(void **state)
{
	(void)state;
	struct growth growth = { .kind = GROWTH_STEADY,
		.rate = 2 * mib,
		.low = 1 * mib,
		.high = 3 * mib,
		.has_onset = true,
		.onset_hours = 6,
		.onset_low = 5,
		.onset_high = 7,
		.end_hours = 20,
		.end_low = 12,
		.end_high = 20 };

	assert_string_equal(describe(&growth),
		"grows since 6 h after the start (5 h to 7 h): +2.0 ± 1.0 MiB/h; it may have ended "
		"12 h after the start, or later");
	growth.may_be_step = true;
	assert_string_equal(describe(&growth),
		"grows since 6 h after the start (5 h to 7 h): +2.0 ± 1.0 MiB/h, or took two "
		"steps; a later profile shows which");
	growth.may_be_step = false;
	growth.has_end = true;
	growth.end_hours = 13;
	growth.end_high = 14;
	assert_string_equal(describe(&growth), "grew from 6 h after the start (5 h to 7 h) until "
					       "13 h after the start (12 h to 14 h): "
					       "+2.0 ± 1.0 MiB/h, level since");
	growth.has_onset = false;
	growth.end_low = growth.end_high = growth.end_hours;
	assert_string_equal(describe(&growth),
		"grew until 13 h after the start: +2.0 ± 1.0 MiB/h, level since");
}

static void an_uneven_interval_has_both_of_its_ends(void **state)
{
	(void)state;
	struct growth growth = { .kind = GROWTH_STEADY,
		.rate = 1.7 * mib,
		.low = 0.9 * mib,
		.high = 3.4 * mib,
		.rises = 4,
		.intervals = 4 };

	assert_string_equal(
		describe(&growth), "+1.7 [+0.9 to +3.4] MiB/h, grew in 4 of 4 intervals");
	growth = (struct growth){ .rate = 0.2 * mib, .low = -0.04 * mib, .high = 2 * mib };
	assert_string_equal(
		describe(&growth), "no growth that stands out (+0.2 [0.0 to +2.0] MiB/h)");
}

static void an_interval_without_0_is_not_shown_with_it(void **state)
{
	(void)state;
	struct growth growth = { .kind = GROWTH_STEADY,
		.rate = 1.1 * mib,
		.low = 0.1 * mib,
		.high = 2.5 * mib,
		.rises = 4,
		.intervals = 4 };

	assert_string_equal(
		describe(&growth), "+1.1 [+0.1 to +2.5] MiB/h, grew in 4 of 4 intervals");
	growth.low = 0.01 * mib;
	growth.high = 2.2 * mib;
	assert_string_equal(
		describe(&growth), "+1.10 [+0.01 to +2.20] MiB/h, grew in 4 of 4 intervals");
	growth = (struct growth){ .kind = GROWTH_FALL,
		.rate = -1.1 * mib,
		.low = -2.5 * mib,
		.high = -0.1 * mib,
		.falls = 4,
		.intervals = 4 };
	assert_string_equal(
		describe(&growth), "-1.1 [-2.5 to -0.1] MiB/h, fell in 4 of 4 intervals");
}

static void a_rise_over_several_profiles_is_no_step(void **state)
{
	(void)state;
	struct growth growth = { .kind = GROWTH_JUMP,
		.step_count = 1,
		.steps = { { .hours = 1.5,
			.size = 8 * mib,
			.lasted_hours = 3,
			.is_gradual = true } } };

	assert_string_equal(
		describe(&growth), "rose by 8.0 MiB from the start to 3 h after it, level since");
	growth.steps[0].hours = 4.5;
	assert_string_equal(
		describe(&growth), "rose by 8.0 MiB from 3 h to 6 h after the start, level since");
	growth.steps[0].size *= -1;
	assert_string_equal(
		describe(&growth), "fell by 8.0 MiB from 3 h to 6 h after the start, level since");
	growth.steps[0].goes_on_slower = true;
	assert_string_equal(describe(&growth),
		"fell by 8.0 MiB from 3 h to 6 h after the start, more slowly since");
}

static void a_last_step_may_continue(void **state)
{
	(void)state;
	const struct growth growth = { .kind = GROWTH_JUMP,
		.may_go_on = true,
		.step_count = 1,
		.steps = { { .hours = 3.5, .size = 8 * mib, .lasted_hours = 1 } } };

	assert_string_equal(describe(&growth), "one step of +8.0 MiB within 60 min, 3.5 h after "
					       "the start; a later profile shows "
					       "whether it continues");
}

static void steps_beside_growth_are_reported_but_not_that_of_the_onset(void **state)
{
	(void)state;
	const struct growth growth = { .kind = GROWTH_STEADY,
		.rate = 2 * mib,
		.low = 1 * mib,
		.high = 3 * mib,
		.has_onset = true,
		.onset_hours = 6,
		.goes_on = true,
		.step_count = 2,
		.steps = { { .hours = 3.5, .size = 8 * mib, .lasted_hours = 1 },
			{ .hours = 6.5, .size = mib, .lasted_hours = 1, .is_of_onset = true } } };

	assert_string_equal(describe(&growth),
		"grows since 6 h after the start: +2.0 ± 1.0 MiB/h, still growing; and one step of "
		"+8.0 MiB within 60 min, 3.5 h after the start");
}

static void ups_and_downs_have_a_range_but_no_rate(void **state)
{
	(void)state;
	const struct growth growth = { .rate = 600 * mib, .low = 599 * mib, .high = 601 * mib };
	const struct growth back = { .low = -mib, .high = mib, .fluctuates = true };

	assert_string_equal(
		describe(&growth), "no growth beyond its fluctuation (64.0 MiB to 68.0 MiB)");
	assert_string_equal(
		describe(&back), "no growth beyond its fluctuation (64.0 MiB to 68.0 MiB)");
}

static void a_change_in_three_profiles_is_not_called_fluctuation(void **state)
{
	(void)state;
	const struct growth growth = { .low = -mib, .high = mib, .fluctuates = true };

	assert_string_equal(describe_profiles(&growth, 3),
		"64.0 MiB to 66.0 MiB, in too few profiles to tell growth from a step");
	assert_string_equal(describe_profiles(&growth, 4),
		"no growth beyond its fluctuation (64.0 MiB to 67.0 MiB)");
}

static void a_step_by_a_restart_is_reported_as_one(void **state)
{
	(void)state;
	struct growth growth = { .kind = GROWTH_JUMP,
		.step_count = 1,
		.steps = { { .hours = 1.5, .size = 8 * mib, .lasted_hours = 1, .is_restart = true },
			{ .hours = 2.5, .size = 2 * mib, .lasted_hours = 1 },
			{ .hours = 3.5, .size = -mib, .lasted_hours = 1 } } };

	assert_string_equal(
		describe(&growth), "one step of +8.0 MiB with a restart, 90 min after the start");
	growth.step_count = 2;
	assert_string_equal(describe(&growth),
		"two steps of +8.0 MiB (restart) and +2.0 MiB, 90 min and 2.5 h after the start");
	growth.step_count = 3;
	assert_string_equal(describe(&growth),
		"3 steps, +9.0 MiB in all (+8.0 MiB with a restart), "
		"90 min to 3.5 h after the start");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_step_by_a_restart_is_reported_as_one),
	cmocka_unit_test(a_rate_and_its_error_have_one_unit),
	cmocka_unit_test(what_is_shown_as_0_has_no_sign),
	cmocka_unit_test(what_falls_is_not_said_to_have_grown),
	cmocka_unit_test(what_falls_later_is_reported_to_fall),
	cmocka_unit_test(growth_is_not_called_continuing_where_it_may_have_ended),
	cmocka_unit_test(an_uneven_interval_has_both_of_its_ends),
	cmocka_unit_test(an_interval_without_0_is_not_shown_with_it),
	cmocka_unit_test(a_rise_over_several_profiles_is_no_step),
	cmocka_unit_test(a_last_step_may_continue),
	cmocka_unit_test(steps_beside_growth_are_reported_but_not_that_of_the_onset),
	cmocka_unit_test(ups_and_downs_have_a_range_but_no_rate),
	cmocka_unit_test(a_change_in_three_profiles_is_not_called_fluctuation),
};

UNIT_MAIN(tests)
