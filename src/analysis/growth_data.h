/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the growth of a series is found from (analysis/growth.h), the steps in it, and the series
 * made ready to be fitted: runs, averaged to a few points, folded where it swings, and what
 * sampling does to it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GROWTH_POINTS = 64, GROWTH_MAX_STEPS = 6, SERIES_PHASES = 8 };

struct growth_step {
	double hours; /* its middle, as the points' */
	double size;
	double lasted_hours; /* at most; the distance of two points when it was sudden */
	bool is_gradual;     /* a rise from one level to another, over several points */
	bool goes_on_slower; /* of a rise: what follows it still rises, by less */
	bool is_of_onset;    /* growth began between two points: no step of its own */
	bool is_restart;     /* between two runs */
};

struct growth_point {
	double hours; /* since any moment; ascending */
	double value;
	double variance; /* of sampling */
	uint32_t run;	 /* points of one run of the program are together */
};

/* What is known of the objects that the values are of; raw counts are of recorded ones. */
struct growth_objects {
	/*
	 * The variance of a value, over the value, when objects come and go independently and are
	 * sampled: the sum of the squares of what each recorded one represents, over the sum.
	 */
	double weight;
	double min_weight; /* what the smallest of them represents; 0: unknown */
	bool has_arrivals; /* the profiles count what was ever allocated */
	double live;	   /* mean number in use */
	double arrivals;   /* number allocated between the first and last point of all runs */
};

struct growth_data_point {
	double hours;
	double first_hours, last_hours; /* of the points as they came that it was averaged of */
	bool is_cut;   /* begins with a sudden change, which no other averaged point has in it */
	double course; /* hours of growth before it, since any moment of its run */
	double value;
	double centered_hours; /* course from the middle of all points of its run and phase */
	double excess; /* what of the value is beyond the least of its run, by its ups and downs */
	uint32_t run;
	uint32_t phase;
};

/* One run of the program, of two points at least. */
struct growth_data_run {
	size_t first, end;
	double span_hours;
	double span_course, mean_course; /* of its points, since its first */
	double mean_value;
	double mean_excess;
};

struct growth_data {
	struct growth_data_point points[GROWTH_POINTS];
	size_t count;
	/*
	 * Each phase has a level of its own: the phases of a period where the series swings, the
	 * stretches between steps where it has some; else there is one.
	 */
	size_t phases;
	struct growth_data_run runs[GROWTH_POINTS / 2];
	size_t run_count;
	size_t level_count;  /* of all runs together: phases that have points */
	double step_hours;   /* mean distance of two points as they came; > 0 */
	double usual_hours;  /* median distance of two of `points`, whatever the holes; > 0 */
	double span_hours;   /* of the longest run */
	double plain_rate;   /* by ordinary least squares */
	double square_hours; /* sum of the squared centered hours; > 0 */
	double variance;     /* mean sampling variance of a point as it came; > 0 */
	double weight; /* of a sample: what it adds to the variance, over what it represents */
	double object_weight; /* the same, by sampling and by objects that come and go; >= weight */
	double min_object;    /* about the smallest object that was recorded; 0: unknown */
	bool may_be_pool;    /* a pool, which keeps the number of its objects, would move by less */
	double arrivals;     /* samples that were seen to come; negative: unknown */
	double object_hours; /* of those in use, in which they came */
	/*
	 * As if none were in two profiles: the variance of a point as it came, and what a level for
	 * each run leaves of the averaged points, over theirs. Much less is left of what stays.
	 */
	double plain_variance, plain_square_sum;
	bool fluctuates;     /* the points as they came move by clearly more than that */
	double min_variance; /* of what is not sampled: the precision of a double; > 0 */
	double period_hours; /* of a fold; else 0 */
	double fold_error;   /* standard error of the rate, as the period is not quite known */
	size_t block;	     /* points as they came that were averaged to one */
};

/* False when there is too little: see growth_fit. */
bool growth_data_make(const struct growth_point *points, size_t count,
	const struct growth_objects *objects, struct growth_data *ret);

/*
 * Lets growth begin at that moment, and end at the other, and each of the steps (by the last point
 * before it, ascending) begin a level of its own. False when no growth could be seen then.
 */
bool growth_data_bend(struct growth_data *series, double onset_hours, double end_hours);
bool growth_data_split(struct growth_data *series, const size_t *steps, size_t step_count);

/*
 * The same, folded by the period of its swings, which are no growth: whole periods, each averaged
 * to as many points as it has phases that were seen, or to one. False when that leaves too little.
 */
bool growth_data_fold(const struct growth_data *series, double period_hours, bool by_phase,
	struct growth_data *ret);

/*
 * Of a moment that one of the points from `first` to `last` fits best: it may be as early as the
 * point before them, and as late as the one after.
 */
struct growth_moment {
	double low, high; /* hours */
};
struct growth_moment growth_data_moment(
	const struct growth_data *series, size_t first, size_t last);

/* Of the points, by what levels and the growth leave. */
double growth_data_residual_variance(const struct growth_data *series);

/* The first point of the run that a point is of, and the one after its last. */
size_t growth_data_run_begin(const struct growth_data *series, size_t at);
size_t growth_data_run_end(const struct growth_data *series, size_t at);

/*
 * Whether a step after this point has two points of its run after it, or three up to it and one
 * after it; and whether a hinge there has one before and two after.
 */
bool growth_data_may_step(const struct growth_data *series, size_t at);
bool growth_data_may_bend(const struct growth_data *series, size_t at);

/* A part of an object is no step; where the levels beside one vary, its mean size is less. */
double growth_data_min_object_step(const struct growth_data *series);

/*
 * What rises by less is no step, either: a few samples that come one by one look like one. What is
 * larger than the sampling interval is a step of its own.
 */
double growth_data_min_step(const struct growth_data *series);
