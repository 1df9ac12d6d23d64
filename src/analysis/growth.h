/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast something grows, by a series of estimates, and how sure that is. The rate is that of the
 * least-squares line through the estimates. Its 95% interval holds the rate of the line through the
 * true values at the same times: what a profiler would have found that records everything. So only
 * sampling makes it wide. `p` asks more: how often a program that does not grow would look as if it
 * grew this much, by sampling and by its own ups and downs.
 *
 * Model. Two profiles err together by the variance of the objects that are alive in both, since an
 * object is sampled, or not, once (Horvitz and Thompson; see analysis/unsample.h). What was sampled
 * has the weight w, the variance of an estimate over its value. So what is added at the rate b and
 * stays makes a random walk of variance w |b| an hour, like the count of a Poisson process; and a
 * level a of which objects go and others come, with lifetime T, has cov(e_j, e_k) = w a exp(-|t_j -
 * t_k| / T), like the queue M/M/oo. Together
 *
 *	cov(e_j, e_k) = s (f w a exp(-|t_j - t_k| / T) + w |b| min(t_j, t_k))
 *
 * with f the share of the level that is turned over (the rest stays and cancels out of b), and
 * s >= 1 for the program itself, of which the interval knows nothing: there s = 1. What the ups and
 * downs of a level itself are above their low was turned over: it is of one profile alone.
 *
 * Of this w is known. T, f and s are not: profiles do not say which objects are the same. The error
 * of the rate is found for each of a grid of their values, and averaged with the weights that the
 * series gives them (restricted likelihood, Patterson and Thompson 1971) times what they weigh
 * beforehand. A restart begins anew: each run has a level of its own, and b is common.
 *
 * A rate belongs to the 95% interval when such a model with this rate (and the covariance and the
 * level that go with it) gives neither 2.5% to estimates as high, nor to ones as low. As for a
 * Poisson count the interval is wider above than below, and holds for a few samples. What was seen
 * to come beyond a supposed b did come: the turnover is never less than half of that, so that three
 * samples in a straight line are no proof. bench/bench_trend.py shows how often the intervals hold
 * the truth.
 *
 * Long series are averaged to at most GROWTH_POINTS points first. Where a series swings, each phase
 * of the period has a level of its own. A period that is no whole number of intervals has other
 * phases each time, and is averaged to one point. Where the levels and the line leave more than
 * sampling does, the fold was not quite right, and the interval has that in it, too: s >= 1.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GROWTH_POINTS = 64 };

struct growth_point {
	double hours; /* since any moment; ascending */
	double value;
	double variance; /* of sampling */
	uint32_t run;	 /* points of one run of the program are together */
};

enum growth_kind {
	GROWTH_NONE,   /* nothing that stands out of the noise */
	GROWTH_STEADY, /* b > 0 at the 5% level of this series alone, and by its interval */
	GROWTH_JUMP,   /* it rose (or fell) once, and that explains it better than a line */
	GROWTH_CYCLE,  /* swings with a period; what grows comes back */
	GROWTH_FALL,   /* b < 0 */
};

struct growth {
	enum growth_kind kind;
	double rate;	  /* per hour */
	double low, high; /* its 95% interval, as far as sampling goes */
	double p; /* that a series which does not grow looks as if it grew this much; one-sided */
	unsigned rises, intervals; /* of the (averaged) points of one run, how many were rises */
	double jump_hours;	   /* of GROWTH_JUMP: when (the middle), and by how much */
	double jump;
	double jump_lasted_hours; /* at most; the distance of two points when it was sudden */
	double period_hours;	  /* of GROWTH_CYCLE, and of steady growth with swings; 0 without */
};

/* False when it cannot be said: less than three points, or no run with two. */
bool growth_fit(const struct growth_point *points, size_t count, struct growth *ret);
