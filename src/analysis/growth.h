/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast something grows, by a series of estimates, since when, and how sure that is. The rate is
 * that of a least-squares line: through all estimates, or, where growth began later or has ended,
 * level up to its onset (a hinge) and from its end on; steps beside it are left to levels of their
 * own. Its 95% interval contains
 * the rate of the same line through the true values at the same times: what a profiler would have
 * found that records everything. So its width comes from sampling alone. `p` is how often a program
 *that does not grow would look as if it grew this much, by sampling and by its own fluctuation.
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
 * s >= 1 for the program itself, which the interval ignores: there s = 1. The part of a fluctuating
 *level above its low was turned over: it is of one profile alone.
 *
 * The estimates themselves move by more than sampling: the number of objects of that queue is a
 * Poisson count, so the value moves by the variance z a for objects of z bytes, with the same
 * correlation. Together with sampling that is v a with v = w + z, the sum of the squares of what
 * each recorded object represents over the sum (growth_objects). For objects far smaller than the
 * sampling interval v is w; for large ones nearly all is the program's. So p takes v in place of w.
 * For the interval the series' own moves, which determine T and f, are taken for v a (traffic) and
 *for w a (a pool that keeps their number), and the rate errs by w either way.
 *
 * Of this w and v are known. T, f and s are not: profiles do not say which objects are the same.
 * Where they count what was ever allocated, this determines T roughly. The error of the rate is
 *found for each of a grid of their values, and averaged with the weights that the series gives them
 * (restricted likelihood, Patterson and Thompson 1971) times what they weigh beforehand. A restart
 * starts again: each run has a level of its own, and b is common.
 *
 * A rate belongs to the 95% interval when such a model with this rate (and the covariance and the
 * level that go with it) gives neither 2.5% to estimates as high, nor to ones as low. As for a
 * Poisson count the interval is wider above than below, and holds for a few samples. What was seen
 * to come beyond a supposed b did come: the turnover is never less than half of that, so that three
 * samples in a straight line are no proof.
 *
 * p tests growth from the start on and from other times on, and is corrected for these several
 *tests (Cauchy's combination of their p). Which shape a series has is decided by Schwarz's
 * criterion (analysis/growth_shape.h): growth that steps or a rise to a new level explain nearly
 * as well, with odds of less than 20 to 1 against them, is not called growth.
 * bench/bench_trend.py and bench/bench_trend_kinds.py show how often all of this is right.
 *
 * Long series are averaged to at most GROWTH_POINTS points first, but not across a sudden
 * change: half of a step in one point would look like a rise, and hide growth beside it. Where a
 * series swings, each phase of the period has a level of its own. A period that is no whole number
 * of intervals has other phases each time, and is averaged to one point. Where the levels and the
 * line leave more than sampling does, the fold was not quite right, and the interval has that in
 * it, too: s >= 1. So has it where fewer than three periods leave open how long one is.
 */
#pragma once

#include "analysis/growth_point.h"

enum growth_kind {
	GROWTH_NONE,   /* nothing that stands out of the noise */
	GROWTH_STEADY, /* b > 0 at the 5% level of this series alone, and by its interval */
	GROWTH_JUMP,   /* it rose (or fell) by steps between levels, and grows no more */
	GROWTH_CYCLE,  /* swings with a period; what grows comes back */
	GROWTH_FALL,   /* b < 0, in the same way */
};

struct growth {
	enum growth_kind kind;
	double rate;	  /* per hour; of GROWTH_JUMP that of a line through all */
	double low, high; /* its 95% interval, as far as sampling goes */
	double p; /* that a series which does not grow looks as if it grew this much; one-sided */
	unsigned rises, falls, intervals; /* between (averaged) points of one run */
	bool fluctuates;    /* it moves by clearly more than objects that come and go one by one */
	bool may_be_step;   /* of GROWTH_NONE: it rose, and a step explains that nearly as well */
	bool may_go_on;	    /* of GROWTH_JUMP: only the last point is after the last step */
	bool has_onset;	    /* of GROWTH_STEADY or GROWTH_FALL: it began later */
	double onset_hours; /* the last point before it did, as the points' */
	double onset_low, onset_high; /* its 95% interval */
	bool has_end;	  /* of GROWTH_STEADY or GROWTH_FALL: a level of a few points follows */
	bool goes_on;	  /* where it has_onset: it has no end two points ago, or earlier */
	double end_hours; /* the first point of that level; without one the last point */
	double end_low, end_high; /* its 95% interval; to the last point where it may go on */
	struct growth_step steps[GROWTH_MAX_STEPS]; /* of GROWTH_JUMP, and beside growth */
	size_t step_count;
	double period_hours; /* of GROWTH_CYCLE, and of steady growth with swings; 0 without */
};

/*
 * `objects` may be NULL: then only sampling is taken for what moves a level. False when it cannot
 * be said: less than three points, or no run with two.
 */
bool growth_fit(const struct growth_point *points, size_t count,
	const struct growth_objects *objects, struct growth *ret);

/*
 * Of a series that does not grow, and whose runs are processes: adds a step for each restart after
 * which the level is clearly another one, as a deploy may bring it. More restarts than there is
 * room for are left out.
 */
void growth_add_restarts(const struct growth_point *points, size_t count,
	const struct growth_objects *objects, struct growth *growth);

/* The steps without those of the onset; how many. */
size_t growth_own_steps(const struct growth *growth, struct growth_step ret[GROWTH_MAX_STEPS]);

/* Of a series with steps. */
const struct growth_step *growth_largest_step(const struct growth *growth);
