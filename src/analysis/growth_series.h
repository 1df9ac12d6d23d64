/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series made ready to be fitted: runs, averaged to a few points, folded where it swings, and
 * what sampling does to it.
 */
#pragma once

#include "analysis/growth.h"

enum { SERIES_PHASES = 8 };

struct series_point {
	double hours;
	double value;
	double lever;  /* hours from the middle of all points of its run and phase */
	double excess; /* what of the value is beyond the least of its run, by its ups and downs */
	uint32_t run;
	uint32_t phase;
};

/* One run of the program, of two points at least. */
struct series_run {
	size_t first, end;
	double span_hours;
	double mean_hours; /* of its points, since its first */
	double mean_value;
	double mean_excess;
};

struct series {
	struct series_point points[GROWTH_POINTS];
	size_t count;
	size_t phases; /* of a period of its swings, each with a level of its own; 1 without */
	struct series_run runs[GROWTH_POINTS / 2];
	size_t run_count;
	size_t level_count;  /* of all runs together: phases that have points */
	double step_hours;   /* mean distance of two points as they came; > 0 */
	double usual_hours;  /* median distance of two of `points`, whatever the holes; > 0 */
	double span_hours;   /* of the longest run */
	double plain_rate;   /* by ordinary least squares */
	double square_hours; /* sum of the squared levers; > 0 */
	double variance;     /* mean sampling variance of a point as it came; > 0 */
	double weight; /* of a sample: what it adds to the variance, over what it stands for */
	double least_variance; /* of what is not sampled: as well as a double knows it; > 0 */
	size_t block;	       /* points as they came that were averaged to one */
};

/* False when there is too little: see growth_fit. */
bool series_make(const struct growth_point *points, size_t count, struct series *ret);

/*
 * The same, folded by the period of its swings, which are no growth: whole periods, each averaged
 * to as many points as it has phases that were seen. False when that leaves too little.
 */
bool series_fold(const struct series *series, double period_hours, struct series *ret);
