/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "analysis/growth.h"
#include "analysis/growth_data.h"

/* The mean after the last step of a run, or before its first. */
static double level_beside(const struct growth_data *series, const struct growth *growth,
	const struct growth_data_run *run, bool is_end)
{
	double sum = 0;
	size_t first = run->first, end = run->end;

	for (size_t i = 0; i < growth->step_count; i++) {
		const struct growth_step *const step = &growth->steps[i];
		const double half = 0.499 * step->lasted_hours;
		if (step->hours < series->points[run->first].hours ||
			step->hours > series->points[run->end - 1].hours)
			continue;
		while (is_end && first + 1 < end &&
			series->points[first].hours < step->hours + half)
			first++;
		while (!is_end && first + 1 < end &&
			series->points[end - 1].hours > step->hours - half)
			end--;
	}
	for (size_t i = first; i < end; i++)
		sum += series->points[i].value;
	return sum / (double)(end - first);
}

/* Of a point, by the ups and downs within runs. */
static double scatter_variance(const struct growth_data *series)
{
	return series->plain_square_sum * series->plain_variance / (double)series->block /
	       (double)(series->count - series->run_count);
}

static int by_hours(const void *a, const void *b)
{
	const struct growth_step *const x = a, *const y = b;

	return (x->hours > y->hours) - (x->hours < y->hours);
}

void growth_add_restarts(const struct growth_point *points, size_t count,
	const struct growth_objects *objects, struct growth *growth)
{
	const double clearly = 3; /* standard errors of two points of which none is in both */
	struct growth_step restarts[GROWTH_MAX_STEPS];
	struct growth_data series;
	size_t found = 0;

	if ((growth->kind != GROWTH_JUMP && growth->kind != GROWTH_NONE) || growth->may_be_step ||
		!growth_data_make(points, count, objects, &series))
		return;
	for (size_t i = 1; i < series.run_count; i++) {
		const struct growth_data_run *const last = &series.runs[i - 1],
						    *const next = &series.runs[i];
		const double before = level_beside(&series, growth, last, true),
			     after = level_beside(&series, growth, next, false);
		/* What never moves within a run is sampled, but does not come and go. */
		const bool is_still = series.plain_square_sum * series.plain_variance <=
					      (double)series.count * series.min_variance &&
				      last->end - last->first > 2 && next->end - next->first > 2;
		const double weight = is_still ? series.weight : series.object_weight;
		const double variance =
			fmax(weight * (before + after), 2 * scatter_variance(&series)) +
			series.min_variance;
		const double from = series.points[last->end - 1].hours,
			     to = series.points[next->first].hours;
		if (fabs(after - before) <= clearly * sqrt(variance))
			continue;
		if (growth->step_count + found == GROWTH_MAX_STEPS)
			return;
		restarts[found++] = (struct growth_step){ .hours = (from + to) / 2,
			.size = after - before,
			.lasted_hours = to - from,
			.is_restart = true };
	}
	if (found == 0)
		return;
	for (size_t i = 0; i < found; i++)
		growth->steps[growth->step_count++] = restarts[i];
	qsort(growth->steps, growth->step_count, sizeof growth->steps[0], by_hours);
	growth->kind = GROWTH_JUMP;
	growth->may_go_on &= !growth->steps[growth->step_count - 1].is_restart;
}
