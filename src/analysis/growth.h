/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast something grows, by a series of estimates; since when; and with what error. The rate is
 * that of a least-squares line: through all estimates, or, where growth began later or has ended,
 * of a line that is level before its onset (a hinge) and after its end. Steps beside the line have
 * levels of their own. The 95% interval of the rate contains the rate of the same line through the
 * true values at the same times, which a profiler that records everything would have found. So its
 * width comes from sampling alone. `p` is how often a program that does not grow would look as if
 * it grew this much, by sampling and by its own fluctuation.
 *
 * Model. The errors of two profiles are correlated: their covariance is the variance of the objects
 * that are alive in both, since an object is sampled, or not, once (Horvitz and Thompson; see
 * analysis/unsample.h). A sampled object has the weight w, the variance of an estimate over its
 * value. So what is added at the rate b and stays is a random walk of variance w |b| an hour, like
 * the count of a Poisson process. A level a whose objects are replaced after a lifetime T has
 * cov(e_j, e_k) = w a exp(-|t_j - t_k| / T), like the queue M/M/oo. Together:
 *
 *	cov(e_j, e_k) = s (f w a exp(-|t_j - t_k| / T) + w |b| min(t_j, t_k))
 *
 * Here f is the share of the level that is replaced (the rest stays and cancels out of b), and
 * s >= 1 is the program's own variation, which the interval ignores: there s = 1. Where the level
 * fluctuates, the part above its minimum was replaced, and is of one profile alone.
 *
 * The values themselves vary, too, not only by sampling: the number of objects in that queue is a
 * Poisson count, so the value has the variance z a for objects of z bytes, with the same
 * correlation. Together with sampling that is v a with v = w + z, the sum of the squares of what
 * each recorded object represents, over their sum (growth_objects). For objects far smaller than
 * the sampling interval v is w; for large ones nearly all of v is the program's. So p uses v in
 * place of w. For the interval, T and f are determined from the movement of the series twice: once
 * as if it were v a (traffic), once as if it were w a (a pool with a fixed number of objects). The
 * error of the rate follows from w in both.
 *
 * Of these w and v are known. T, f and s are not: profiles do not say which objects are the same.
 * Where they count what was ever allocated, this determines T roughly. The error of the rate is
 * computed for each point of a grid of T, f and s, and averaged with the likelihoods that the
 * series gives these points (restricted likelihood, Patterson and Thompson 1971) times their prior
 * weights. A restart begins a new run, with a level of its own; b is common to all runs.
 *
 * A rate belongs to the 95% interval when the model with this rate (and the covariance and the
 * level that go with it) gives at least 2.5% to estimates as high as these, and to estimates as
 * low. As for a Poisson count, the interval is wider above than below, and has its coverage for a
 * few samples. Samples that arrived beyond a supposed b are evidence of replacement: the turnover
 * is at least half of them, so three samples in a straight line are no proof of growth.
 *
 * p tests growth from the start on and from other times on, and is corrected for these several
 * tests (Cauchy's combination of their p). Schwarz's criterion decides which shape a series has
 * (analysis/growth_shape.h). Growth that steps or a rise to a new level explain nearly as well,
 * with odds of less than 20 to 1 against them, is not called growth. bench/bench_trend.py and
 * bench/bench_trend_kinds.py show how often all of this is right.
 *
 * Long series are first averaged to at most GROWTH_POINTS points, but not across a sudden change:
 * half of a step in one point would look like a rise, and hide growth beside it. Where a series
 * swings, each phase of the period has a level of its own. If the period is no whole number of
 * intervals, its phases differ from period to period, and it is averaged to one point. Where the
 * residuals are larger than sampling explains, the period was not quite right, and s >= 1 widens
 * the interval. It is also widened where fewer than three periods determine the period's length
 * badly.
 */
#pragma once

#include "analysis/growth_data.h"

enum growth_kind {
	GROWTH_NONE,   /* nothing beyond the noise */
	GROWTH_STEADY, /* b > 0 at the 5% level of this series alone, and by its interval */
	GROWTH_JUMP,   /* it rose (or fell) by steps between levels, and does not grow */
	GROWTH_CYCLE,  /* swings with a period, without growth */
	GROWTH_FALL,   /* b < 0, in the same way */
};

struct growth {
	enum growth_kind kind;
	double rate;	  /* per hour; of GROWTH_JUMP that of a line through all */
	double low, high; /* its 95% interval, for the error of sampling */
	double p; /* that a series which does not grow looks as if it grew this much; one-sided */
	unsigned rises, falls, intervals; /* between (averaged) points of one run */
	unsigned averaged;		  /* about how many points each of those was made of */
	bool fluctuates; /* it moves by clearly more than objects that come and go one by one */
	/*
	 * Of GROWTH_NONE: it rose, and a step explains that nearly as well. Of growth: only the
	 * last two points have changed, as they do after two steps.
	 */
	bool may_be_step;
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
 * `objects` may be NULL: then only sampling is assumed to move a level. False without an answer:
 * for fewer than three points, or no run with two.
 */
bool growth_fit(const struct growth_point *points, size_t count,
	const struct growth_objects *objects, struct growth *ret);

/*
 * Of a series that does not grow, and whose runs are processes: adds a step for each restart after
 * which the level clearly differs, as after a deploy. Restarts beyond the size of the array are
 * left out.
 */
void growth_add_restarts(const struct growth_point *points, size_t count,
	const struct growth_objects *objects, struct growth *growth);

/* The steps without those of the onset; how many. */
size_t growth_own_steps(const struct growth *growth, struct growth_step ret[GROWTH_MAX_STEPS]);

/* Of a series with steps. */
const struct growth_step *growth_largest_step(const struct growth *growth);
