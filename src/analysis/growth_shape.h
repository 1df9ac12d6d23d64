/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a series looks like: level, a line, a hinge (level, then a line to the end), steps between
 * levels, a rise between two levels, some of them together, or swings with a period. A step needs a
 * level after it, of two points at least: what still rises at the end is a hinge. A line or a hinge
 * whose end was shortly before that of the series is still growth, which may begin again. Growth
 * has swings only where it falls between them: a row of steps is a line and waves, too.
 *
 * The shapes are compared by Schwarz's criterion (Annals of Statistics 6, 1978): the logarithm of
 * the likelihood, less log(n) / 2 for each height or slope, and log(n) for each moment, of which
 * there are n (Zhang and Siegmund, Biometrics 63, 2007). Each shape is judged with the noise that
 * suits it best, of a few members of the model in analysis/growth.h. A height or slope is that of
 * least squares under this noise.
 */
#pragma once

#include "analysis/growth_data.h"

struct shape_step {
	struct growth_step step;
	size_t before;	     /* the last point before it */
	double growth_hours; /* of the growth beside it, from the level before to that after it */
};

struct growth_shape {
	bool is_jump;				   /* steps, or a rise, and no growth beside them */
	bool is_step;				   /* the same, but it hardly stands out */
	bool beats_level;			   /* of a step: clearly likelier than a level */
	struct shape_step steps[GROWTH_MAX_STEPS]; /* in order of time */
	size_t step_count;
	bool grows_beside_steps;
	bool has_onset; /* of growth, which continues to the end */
	bool falls;	/* of what has an onset, or an end */
	double onset_hours;
	double onset_low, onset_high; /* its 95% interval, beyond the resolution of the points */
	bool has_end;		      /* of growth, which a level follows */
	bool goes_on;		      /* of growth: it has no end two intervals ago, or earlier */
	double end_hours;
	double end_low, end_high;  /* its 95% interval, to the last point where it may go on */
	double period_hours;	   /* 0 when there are no swings */
	double period_error_hours; /* about */
	bool outgrows_swings;	   /* the line rises by more than the swings, from end to end */
};

/*
 * Whether a step beside growth, after the point of those hours, is smaller than what growth adds
 * until the next point, and near its onset: then it only shows that growth began between two
 * points.
 */
bool growth_step_is_of_onset(
	const struct growth_step *step, double before_hours, double onset_hours, double rate);

struct growth_shape growth_shape_of(const struct growth_data *series);
