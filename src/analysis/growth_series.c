/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_series.h"

#include <math.h>

static size_t run_length(const struct growth_point *points, size_t count)
{
	size_t length = 1;

	while (length < count && points[length].run == points[0].run)
		length++;
	return length;
}

/* Averages of `count` points of one run as `parts` points. */
static void average_run(
	const struct growth_point *points, size_t count, size_t parts, struct series *series)
{
	for (size_t part = 0; part < parts; part++) {
		const size_t first = part * count / parts, end = (part + 1) * count / parts;
		struct series_point *const point = &series->points[series->count++];
		*point = (struct series_point){ .run = points[0].run };
		for (size_t i = first; i < end; i++) {
			point->hours += points[i].hours / (double)(end - first);
			point->value += points[i].value / (double)(end - first);
			point->weight += points[i].variance / (double)(end - first);
		}
	}
}

/*
 * The points that each run may have: its share of them, two at least. Runs beyond the room are
 * left out, oldest first.
 */
static void average(const struct growth_point *points, size_t count, struct series *series)
{
	size_t runs = 0, useful = 0;

	for (size_t i = 0, length; i < count; i += length) {
		length = run_length(points + i, count - i);
		runs += length > 1;
		useful += length > 1 ? length : 0;
	}
	size_t skipped = runs > GROWTH_POINTS / 2 ? runs - GROWTH_POINTS / 2 : 0;
	const size_t spare = GROWTH_POINTS - 2 * (runs - skipped);
	for (size_t i = 0, length; i < count; i += length) {
		length = run_length(points + i, count - i);
		if (length < 2)
			continue;
		if (skipped > 0) {
			skipped--;
			continue;
		}
		const size_t room = useful <= GROWTH_POINTS ? length : 2 + spare * length / useful;
		average_run(points + i, length, length < room ? length : room, series);
	}
}

/* Weights on a line through the variances, so that they do not follow each point's own error. */
static void smooth_weights(struct series *series)
{
	const double least = 0.2, most_ratio = 1e4;
	double sum = 0, t_sum = 0, tt = 0, tv = 0;

	for (size_t i = 0; i < series->count; i++) {
		sum += series->points[i].weight;
		t_sum += series->points[i].hours;
	}
	const double mean = sum / (double)series->count;
	const double t_mean = t_sum / (double)series->count;
	for (size_t i = 0; i < series->count; i++) {
		const double t = series->points[i].hours - t_mean;
		tt += t * t;
		tv += t * series->points[i].weight;
	}
	for (size_t i = 0; i < series->count; i++) {
		const double t = series->points[i].hours - t_mean;
		const double smooth = mean + (tt > 0 ? tv / tt * t : 0);
		series->points[i].weight = mean > 0 ? fmax(smooth / mean, least) : 1;
	}
	series->variance = mean;
	if (tt <= 0 || tv <= 0)
		return;
	/* Sampled objects got more by this variance in an interval, and stayed. */
	const double walk = tv / tt * series->step_hours;
	const double start = mean - tv / tt * (t_mean - series->points[0].hours);
	series->least_ratio = walk / fmax(start, walk / most_ratio);
}

/* A scale for figures that are not sampled: nothing is known better than what a double holds. */
static double least_variance(const struct series *series)
{
	double largest = 1;

	for (size_t i = 0; i < series->count; i++)
		largest = fmax(largest, fabs(series->points[i].value));
	return largest * largest * 1e-12;
}

static bool measure_steps(struct series *series)
{
	double sum = 0;
	size_t steps = 0;

	for (size_t i = 1; i < series->count; i++) {
		if (series->points[i].run != series->points[i - 1].run)
			continue;
		sum += series->points[i].hours - series->points[i - 1].hours;
		steps++;
	}
	series->step_hours = steps == 0 ? 0 : sum / (double)steps;
	return series->step_hours > 0;
}

bool series_make(const struct growth_point *points, size_t count, struct series *ret)
{
	*ret = (struct series){ 0 };
	average(points, count, ret);
	if (ret->count < 3 || !measure_steps(ret))
		return false;
	smooth_weights(ret);
	ret->variance = fmax(ret->variance, least_variance(ret));
	return true;
}

size_t series_run_end(const struct series *series, size_t first)
{
	size_t end = first + 1;

	while (end < series->count && series->points[end].run == series->points[first].run)
		end++;
	return end;
}
