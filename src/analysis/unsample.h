/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates, from what a sampling profiler recorded, what the process really allocated, and the
 * error of the estimate. Every line of a profile is scaled on its own; sums come afterwards.
 *
 * PROFILE_EXPONENTIAL (jemalloc, tcmalloc): the distance between samples is exponential with mean
 * R, so an object of z bytes is recorded with probability p = 1 - exp(-z / R). A line with n
 * objects and s bytes represents n / p objects and s / p bytes, with z = s / n. (jemalloc since
 * 5.3 writes n and s such that this formula gives back its exact sums over all sizes: see
 * prof_data.c there.)
 *
 * PROFILE_RATIO (gperftools): p is the mean size divided by interval / 2, at most 1.
 *
 * PROFILE_WEIGHTED: the figures are estimates already. When the interval is known, n is p times
 * the count.
 *
 * Variance. Objects are recorded independently of each other, so this is a Horvitz-Thompson
 * estimate, and sum over the recorded objects of z^2 (1 - p) / p^2 estimates its variance without
 * bias. With p = 1 - exp(-z / R) that is the sum over all objects of z^2 exp(-z / R) /
 * (1 - exp(-z / R)) that jemalloc's doc_internal/PROFILING_INTERNALS.md derives. A line gives
 * n (1 - p) / p^2 for the count and z^2 times as much for the bytes. For objects far smaller than
 * R the relative standard error is about 1 / sqrt(n). Lines are independent: their variances add
 * up.
 */
#pragma once

#include "analysis/view.h"
#include "profile/profile.h"

/* The estimates from one line's counters. */
void unsample(const struct profile *profile, const double counters[PROFILE_COUNTERS],
	struct estimate estimates[PROFILE_COUNTERS]);

struct interval {
	double low;
	double high;
};

/*
 * The 95% interval of a sum of estimates that are not negative. It inverts the score test of a
 * binomial count, (T - c)^2 <= 1.96^2 c V / T for the true c: unlike T +- 1.96 sqrt(V) it has
 * its coverage for a handful of samples, too, lies above 0, and is asymmetric.
 */
struct interval estimate_interval(struct estimate estimate);

/*
 * The same for now - base: each side's interval, combined as if the two were independent. Objects
 * that are in both profiles of one process make the true interval narrower.
 */
struct interval estimate_difference_interval(struct estimate now, struct estimate base);
