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

/* Points that a run of this length is averaged to. */
static size_t part_count(size_t length, size_t block)
{
	const size_t parts = (length + block - 1) / block;

	return parts < 2 ? 2 : parts;
}

/* Points that all runs but the first `skipped` useful ones are averaged to. */
static size_t all_parts(
	const struct growth_point *points, size_t count, size_t skipped, size_t block)
{
	size_t parts = 0;

	for (size_t i = 0, length; i < count; i += length) {
		length = run_length(points + i, count - i);
		if (length < 2)
			continue;
		if (skipped > 0)
			skipped--;
		else
			parts += part_count(length, block);
	}
	return parts;
}

/* Of the points that were added since its first. */
static void end_run(struct series *series, struct series_run *run)
{
	const double start = series->points[run->first].hours;
	const double count = (double)(series->count - run->first);

	run->end = series->count;
	run->span_hours = series->points[run->end - 1].hours - start;
	for (size_t i = run->first; i < run->end; i++) {
		run->mean_hours += (series->points[i].hours - start) / count;
		run->mean_value += series->points[i].value / count;
	}
}

static void average_run(
	const struct growth_point *points, size_t count, size_t parts, struct series *series)
{
	struct series_run *const run = &series->runs[series->run_count++];

	run->first = series->count;
	for (size_t part = 0; part < parts; part++) {
		const size_t first = part * count / parts, end = (part + 1) * count / parts;
		struct series_point *const point = &series->points[series->count++];
		*point = (struct series_point){ .run = points[0].run };
		for (size_t i = first; i < end; i++) {
			point->hours += points[i].hours / (double)(end - first);
			point->value += points[i].value / (double)(end - first);
		}
	}
	end_run(series, run);
}

/* Runs beyond the room are left out, oldest first. */
static void average(const struct growth_point *points, size_t count, struct series *series)
{
	size_t runs = 0;

	for (size_t i = 0, length; i < count; i += length) {
		length = run_length(points + i, count - i);
		runs += length > 1;
	}
	size_t skipped = runs > GROWTH_POINTS / 2 ? runs - GROWTH_POINTS / 2 : 0;
	series->block = 1;
	while (all_parts(points, count, skipped, series->block) > GROWTH_POINTS)
		series->block++;
	for (size_t i = 0, length; i < count; i += length) {
		length = run_length(points + i, count - i);
		if (length < 2)
			continue;
		if (skipped > 0)
			skipped--;
		else
			average_run(points + i, length, part_count(length, series->block), series);
	}
}

static void measure_noise(const struct growth_point *points, size_t count, struct series *series)
{
	const double double_error = 1e-6;
	double values = 0, variances = 0, largest = 1;

	for (size_t i = 0; i < count; i++) {
		values += points[i].value;
		variances += points[i].variance;
		largest = fmax(largest, fabs(points[i].value));
	}
	series->least_variance = largest * double_error * largest * double_error;
	series->variance = fmax(variances / (double)count, series->least_variance);
	series->weight = values > 0 ? variances / values : 0;
}

/* Three standard errors above a Poisson count, also above a count of none. */
static double most_expected(double value, double weight)
{
	const double errors = 3;

	return value + errors * errors / 2 * weight +
	       errors * sqrt(weight * (value + errors * errors / 4 * weight));
}

static void measure_fewest(struct series *series)
{
	for (size_t i = 0; i < series->run_count; i++) {
		struct series_run *const run = &series->runs[i];
		double least = INFINITY;
		for (size_t j = run->first; j < run->end; j++)
			least = fmin(least, series->points[j].value);
		run->fewest = most_expected(fmax(least, 0), series->weight);
	}
}

static void measure_rate(struct series *series)
{
	double tt = 0, ty = 0;

	for (size_t i = 0; i < series->run_count; i++) {
		const struct series_run *const run = &series->runs[i];
		for (size_t j = run->first; j < run->end; j++) {
			const double t = series->points[j].hours -
					 series->points[run->first].hours - run->mean_hours;
			tt += t * t;
			ty += t * (series->points[j].value - run->mean_value);
		}
	}
	series->square_hours = tt;
	series->plain_rate = tt > 0 ? ty / tt : 0;
}

static bool measure_times(struct series *series)
{
	double hours = 0;
	size_t steps = 0;

	for (size_t i = 0; i < series->run_count; i++) {
		const struct series_run *const run = &series->runs[i];
		hours += run->span_hours;
		steps += run->end - run->first - 1;
		series->span_hours = fmax(series->span_hours, run->span_hours);
	}
	series->step_hours = steps == 0 ? 0 : hours / (double)(steps * series->block);
	measure_rate(series);
	return series->step_hours > 0 && series->count >= series->run_count + 2;
}

bool series_make(const struct growth_point *points, size_t count, struct series *ret)
{
	*ret = (struct series){ 0 };
	average(points, count, ret);
	measure_noise(points, count, ret);
	measure_fewest(ret);
	return measure_times(ret);
}

/* One point for each whole period of a run; what is left over at its end is left out. */
static void average_run_periods(const struct series *series, const struct series_run *source,
	double period, double step, struct series *ret)
{
	const double start = series->points[source->first].hours - step / 2;
	const size_t periods = (size_t)((source->span_hours + step) / period);
	size_t i = source->first;

	if (periods < 2)
		return;
	struct series_run *const run = &ret->runs[ret->run_count++];
	run->first = ret->count;
	run->fewest = source->fewest;
	for (size_t at = 0; at < periods; at++) {
		struct series_point *const point = &ret->points[ret->count++];
		const size_t first = i;
		*point = (struct series_point){ .run = series->points[first].run };
		for (; i < source->end &&
			(i == first || series->points[i].hours < start + period * (double)(at + 1));
			i++) {
			point->hours += series->points[i].hours;
			point->value += series->points[i].value;
		}
		point->hours /= (double)(i - first);
		point->value /= (double)(i - first);
	}
	end_run(ret, run);
}

bool series_average_periods(const struct series *series, double period_hours, struct series *ret)
{
	const double step = series->step_hours * (double)series->block;

	*ret = (struct series){
		.variance = series->variance,
		.weight = series->weight,
		.least_variance = series->least_variance,
		.block = series->block * (size_t)fmax(round(period_hours / step), 1),
	};
	if (period_hours < 2 * step)
		return false;
	for (size_t i = 0; i < series->run_count; i++)
		average_run_periods(series, &series->runs[i], period_hours, step, ret);
	return measure_times(ret);
}
