/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/significance.h"

#include <math.h>

#include "unit.h"

static void assert_near(double value, double expected, double error)
{
	if (!(fabs(value - expected) <= error))
		fail_msg("%.12g is not %.12g", value, expected);
}

/* R: pt(t, df, lower.tail = FALSE) and qt(0.975, df). */
static void tails_are_those_of_tables(void **state)
{
	(void)state;
	assert_near(student_tail(0, 5), 0.5, 1e-12);
	assert_near(student_tail(1, 1), 0.25, 1e-12);
	assert_near(student_tail(12.7062047364, 1), 0.025, 1e-10);
	assert_near(student_tail(2.2281388520, 10), 0.025, 1e-10);
	assert_near(student_tail(-2.2281388520, 10), 0.975, 1e-10);
	assert_near(student_tail(1.9599639845, 1e9), 0.025, 1e-7);
	assert_near(student_tail(INFINITY, 3), 0, 0);
	assert_near(student_tail(-INFINITY, 3), 1, 0);
	assert_near(student_width95(1), 12.7062047364, 1e-7);
	assert_near(student_width95(10), 2.2281388520, 1e-7);
	assert_near(student_width95(1e9), 1.9599639845, 1e-5);
	/* Far out, where 1 - P would be 0. */
	assert_true(student_tail(60, 30) > 0 && student_tail(60, 30) < 1e-30);
}

static void welch_takes_the_freedom_of_the_wider_side(void **state)
{
	(void)state;
	double t, df;

	assert_true(welch_test(
		(double[]){ 10, 13 }, (double[]){ 1, 0 }, (double[]){ 8, 100 }, &t, &df));
	assert_near(t, 3, 1e-12);
	assert_near(df, 7, 1e-12);
	assert_true(
		welch_test((double[]){ 1, 2 }, (double[]){ 1, 1 }, (double[]){ 10, 10 }, &t, &df));
	assert_near(df, 18, 1e-12);
	assert_false(
		welch_test((double[]){ 1, 2 }, (double[]){ 1, 1 }, (double[]){ 10, 1 }, &t, &df));
	/* Two sides without any spread. */
	assert_true(
		welch_test((double[]){ 1, 2 }, (double[]){ 0, 0 }, (double[]){ 3, 3 }, &t, &df));
	assert_true(isinf(t) && t > 0);
	assert_true(
		welch_test((double[]){ 2, 2 }, (double[]){ 0, 0 }, (double[]){ 3, 3 }, &t, &df));
	assert_true(t == 0);
}

static void holm_multiplies_by_the_tests_that_are_left(void **state)
{
	(void)state;
	double p[] = { 0.001, 0.02, 0.021, 0.9 };

	holm_adjust(p, 4, 4);
	assert_near(p[0], 0.004, 1e-15);
	assert_near(p[1], 0.06, 1e-15);
	/* Never below the one before. */
	assert_near(p[2], 0.06, 1e-15);
	assert_near(p[3], 0.9, 1e-15);
	holm_adjust(p, 0, 0);
	/* The smallest of a thousand. */
	double smallest[] = { 1e-6, 1e-4 };
	holm_adjust(smallest, 2, 1000);
	assert_near(smallest[0], 1e-3, 1e-15);
	assert_near(smallest[1], 0.0999, 1e-15);
}

static void a_robust_variance_has_less_freedom_the_more_of_the_sum_it_is(void **state)
{
	(void)state;
	assert_near(robust_freedom(2, 0, 101), 85, 1e-12);
	assert_near(robust_freedom(1, 1, 101), 340, 1e-12);
	assert_near(robust_freedom(0, 1, 101), 10000, 0);
	assert_near(robust_freedom(1e-9, 1, 101), 10000, 0);
	/* With all that it may be, the tail is a normal one. */
	assert_near(student_tail(5, 10000), 2.9e-7, 0.1e-7);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(tails_are_those_of_tables),
	cmocka_unit_test(welch_takes_the_freedom_of_the_wider_side),
	cmocka_unit_test(holm_multiplies_by_the_tests_that_are_left),
	cmocka_unit_test(a_robust_variance_has_less_freedom_the_more_of_the_sum_it_is),
};

UNIT_MAIN(tests)
