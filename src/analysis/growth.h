/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast something grows, by a series of estimates, and how sure that is.
 *
 * Model. y_k = a(run) + b t_k + e_k: one rate b for all runs of a program, and a level for each
 * run, because a restart begins anew. The error e_k has two parts, both of sampling and of the
 * program's own ups and downs:
 *
 *	- what was replaced since the last profile errs independently each time: variance D_k,
 *	  proportional to the sampling variance of the point (smoothed: the raw one errs along with
 *	  its point, and weighting by it would pull the line down);
 *	- what stays errs by the same amount as long as it stays. The covariance of two profiles is
 *	  the sampling variance of the objects that are alive in both. Objects that are there all
 *the time cancel out of b. What is added and stays makes the error a random walk: the covariance of
 *points j and k is R_jk = min(t_j, t_k) - t_first in intervals. A leak without any freeing is
 *exactly this.
 *
 * Whoever takes such errors as independent states an error of b that is too small by the square
 * root of about n / 5 for n profiles of a pure leak, and too large for a heap that never changes.
 * Profiles do not say which objects are the same, so the share of the two parts is learnt from
 * the series: cov(e) = s^2 (D + w R), w from a grid that reaches from 0 (all is replaced) to
 * infinity (all stays). Where the sampling variance itself rises along the series, the rise is of
 * objects that stayed, and w is at least the rise in an interval over the variance at the start.
 * Heaps turn most of what is in flight over between two profiles: w = 0 weighs more beforehand.
 *
 * Estimate. For each w the rate is the generalised least squares one. Its scale s^2 has the
 * conjugate prior that the sampling variance suggests, s0^2 = V / (1 + w n / 2) with V the mean
 * sampling variance, weighing as much as one observation; so s^2 is (s0^2 + RSS) / (n - p + 1)
 * for n points, p parameters and the residuals' weighted square sum RSS, and b is distributed as
 * Student's t with n - p + 1 degrees of freedom around its estimate. The grid's members are
 * weighted by their likelihood with a, b and s integrated out (restricted likelihood). The rate,
 * its interval and `p` are those of the mixture. bench/bench_trend.py checks the promise.
 *
 * Long series are averaged to at most GROWTH_POINTS points first; their averages obey the same
 * model.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GROWTH_POINTS = 32 };

struct growth_point {
	double hours; /* since any moment; ascending */
	double value;
	double variance; /* of sampling */
	uint32_t run;	 /* points of one run of the program are together */
};

enum growth_kind {
	GROWTH_NONE,   /* nothing that stands out of the noise */
	GROWTH_STEADY, /* b > 0 at the 5% level of this series alone */
	GROWTH_JUMP,   /* one step up (or down) explains it better than a line */
	GROWTH_CYCLE,  /* swings with a period; what grows comes back */
	GROWTH_FALL,   /* b < 0 */
};

struct growth {
	enum growth_kind kind;
	double rate;	  /* per hour */
	double low, high; /* its 95% interval */
	double p; /* that a series which does not grow looks as if it grew this much; one-sided */
	unsigned rises, intervals; /* of the (averaged) points of one run, how many were rises */
	double jump_hours;	   /* of GROWTH_JUMP: when, and by how much */
	double jump;
	double period_hours; /* of GROWTH_CYCLE, and of steady growth with swings; 0 without */
};

/* False when it cannot be said: less than three points, or no run with two. */
bool growth_fit(const struct growth_point *points, size_t count, struct growth *ret);

/* The distribution function of Student's t. */
double student_cdf(double t, double degrees);
