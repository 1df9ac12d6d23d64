/* SPDX-License-Identifier: Apache-2.0 */
/* Student's distribution, and the adjustment of p for many tests. Pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The probability of a value above t, with that many degrees of freedom (above 0). */
double student_tail(double t, double degrees_of_freedom);

/* Half the width of the 95% interval, in standard errors: 1.96 for many degrees of freedom. */
double student_width95(double degrees_of_freedom);

/*
 * Welch's test of two means, each with the variance of that mean and its number of values: sets t
 * and the degrees of freedom. False where these say nothing: fewer than two values of a side.
 */
bool welch_test(const double means[2], const double variances[2], const double counts[2], double *t,
	double *degrees_of_freedom);

/*
 * Holm's step-down rule: each p, in ascending order, becomes the one that accounts for the number
 * of `tests`, at least `count`, of which these have the smallest p.
 */
void holm_adjust(double *p, size_t count, size_t tests);

/*
 * The degrees of freedom of a variance that is the sum of two: the biweight midvariance of `count`
 * values, and one that is known (Satterthwaite). At most ten thousand.
 */
double robust_freedom(double estimated, double known, double count);
