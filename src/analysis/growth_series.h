/* SPDX-License-Identifier: Apache-2.0 */
/* A series made ready to be fitted: averaged to a few points, with smoothed weights. */
#pragma once

#include "analysis/growth.h"

struct series_point {
	double hours;
	double value;
	double weight; /* variance relative to the mean one; > 0 */
	uint32_t run;
};

struct series {
	struct series_point points[GROWTH_POINTS];
	size_t count;
	double step_hours;  /* mean distance of two points of a run; > 0 */
	double variance;    /* mean sampling variance of a point; > 0 */
	double least_ratio; /* of the walk: see growth.h */
};

/* False when there is too little: see growth_fit. */
bool series_make(const struct growth_point *points, size_t count, struct series *ret);

/* One past the last point of the run that begins at `first`. */
size_t series_run_end(const struct series *series, size_t first);
