/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_shape.h"

#include <math.h>

/* Residuals of each run's own mean and a common line. */
struct flattened {
	double residuals[GROWTH_POINTS];
	double hours[GROWTH_POINTS];
	double square_sum;
	double rise; /* of the line, over the longest run */
};

static struct flattened flatten(const struct series *series)
{
	struct flattened flat = { 0 };
	double tt = 0, ty = 0, longest = 0;

	for (size_t r = 0; r < series->run_count; r++) {
		const struct series_run *const run = &series->runs[r];
		const double start = series->points[run->first].hours;
		for (size_t i = run->first; i < run->end; i++) {
			flat.hours[i] = series->points[i].hours - start - run->mean_hours;
			flat.residuals[i] = series->points[i].value - run->mean_value;
			tt += flat.hours[i] * flat.hours[i];
			ty += flat.hours[i] * flat.residuals[i];
		}
		longest = fmax(longest, run->span_hours);
	}
	for (size_t i = 0; i < series->count; i++) {
		flat.residuals[i] -= ty / tt * flat.hours[i];
		flat.square_sum += flat.residuals[i] * flat.residuals[i];
	}
	flat.rise = ty / tt * longest;
	return flat;
}

/* Sums of values and their squares up to each point, to have those between any two at once. */
struct sums {
	double values[GROWTH_POINTS + 1], squares[GROWTH_POINTS + 1];
};

static struct sums sum_up(const struct series *series)
{
	const double first = series->points[0].value;
	struct sums sums = { 0 };

	for (size_t i = 0; i < series->count; i++) {
		const double value = series->points[i].value - first;
		sums.values[i + 1] = sums.values[i] + value;
		sums.squares[i + 1] = sums.squares[i] + value * value;
	}
	return sums;
}

/* What is left of a stretch of points by their mean, which is returned too. */
static double level_square_sum(const struct sums *sums, size_t first, size_t end, double *mean)
{
	const double count = (double)(end - first);
	const double values = sums->values[end] - sums->values[first];

	*mean = values / count;
	return fmax(sums->squares[end] - sums->squares[first] - values * values / count, 0);
}

/* A rise of one run: the last point of the level before, the first of the level after. */
struct rise {
	const struct series_run *run;
	size_t before, after;
	double jump;
	double square_sum; /* that it leaves of its run */
};

static void measure_rise(const struct series *series, const struct sums *sums, struct rise *rise)
{
	const struct series_point *const points = series->points;
	double low, high;

	rise->square_sum = level_square_sum(sums, rise->run->first, rise->before + 1, &low) +
			   level_square_sum(sums, rise->after, rise->run->end, &high);
	rise->jump = high - low;
	for (size_t i = rise->before + 1; i < rise->after; i++) {
		const double share = (points[i].hours - points[rise->before].hours) /
				     (points[rise->after].hours - points[rise->before].hours);
		const double rest = points[i].value - points[0].value - low - share * rise->jump;
		rise->square_sum += rest * rest;
	}
}

/* The rise of a run that leaves least; sudden ones go first. */
static bool best_rise(const struct series *series, const struct sums *sums,
	const struct series_run *run, struct rise *best)
{
	const double price = 0.05; /* of a rise that takes one interval more */
	const size_t most = (run->end - run->first) / 4;
	double least = INFINITY;

	for (size_t before = run->first + 1; before + 2 < run->end; before++) {
		for (size_t after = before + 1;
			after + 1 < run->end && after - before <= (most > 1 ? most : 1); after++) {
			struct rise rise = { .run = run, .before = before, .after = after };
			measure_rise(series, sums, &rise);
			const double cost =
				rise.square_sum * (1 + price * (double)(after - before - 1));
			if (cost < least) {
				least = cost;
				*best = rise;
			}
		}
	}
	return least < INFINITY;
}

/* The rise explains more than a line, stands out, and is not made of the levels' own slopes. */
static bool is_one_rise(const struct series *series, const struct flattened *flat,
	const struct rise *rise, double left)
{
	const struct series_point *const points = series->points;
	const double step = points[rise->after].value - points[rise->before].value;

	return left <= 0.35 * flat->square_sum &&
	       fabs(rise->jump) >= 4 * sqrt(2 * series->variance) && step / rise->jump >= 0.6;
}

static void look_for_rise(
	const struct series *series, const struct flattened *flat, struct growth_shape *shape)
{
	const struct sums sums = sum_up(series);
	double levels[GROWTH_POINTS / 2], all_levels = 0, least = INFINITY;
	struct rise best = { 0 };

	if (series->count < 5)
		return;
	for (size_t r = 0; r < series->run_count; r++) {
		double mean;
		levels[r] =
			level_square_sum(&sums, series->runs[r].first, series->runs[r].end, &mean);
		all_levels += levels[r];
	}
	for (size_t r = 0; r < series->run_count; r++) {
		struct rise rise;
		if (!best_rise(series, &sums, &series->runs[r], &rise))
			continue;
		/* The other runs have one level each. */
		const double left = all_levels - levels[r] + rise.square_sum;
		if (left < least) {
			least = left;
			best = rise;
		}
	}
	if (least == INFINITY || !is_one_rise(series, flat, &best, least))
		return;
	const double from = series->points[best.before].hours,
		     to = series->points[best.after].hours;
	shape->is_jump = true;
	shape->jump = best.jump;
	shape->jump_hours = (from + to) / 2;
	shape->jump_lasted_hours = to - from;
}

/* How much of the residuals a wave of this period explains; its amplitude. */
static double wave_square_sum(
	const struct series *series, const struct flattened *flat, double period, double *amplitude)
{
	double cc = 0, cs = 0, ss = 0, yc = 0, ys = 0;

	for (size_t i = 0; i < series->count; i++) {
		const double angle = 2 * M_PI * flat->hours[i] / period;
		const double c = cos(angle), s = sin(angle);
		cc += c * c;
		cs += c * s;
		ss += s * s;
		yc += flat->residuals[i] * c;
		ys += flat->residuals[i] * s;
	}
	const double determinant = cc * ss - cs * cs;
	if (determinant < 1e-9 * cc * ss)
		return 0;
	const double a = (yc * ss - ys * cs) / determinant;
	const double b = (ys * cc - yc * cs) / determinant;
	*amplitude = hypot(a, b);
	return a * yc + b * ys;
}

/* At least two periods in the longest run, three points in a period. */
static void look_for_swings(
	const struct series *series, const struct flattened *flat, struct growth_shape *shape)
{
	const double noise = (double)series->count * series->variance;
	const double step = series->usual_hours;
	/* Holes make room for waves that no points have shown. */
	const double most_waves = (double)series->count / 3;
	double span = step, best = 0, best_period = 0, best_amplitude = 0;

	for (size_t r = 0; r < series->run_count; r++)
		span = fmax(span, series->runs[r].span_hours + step);
	if (series->count < 8 || flat->square_sum < 3 * noise)
		return;
	for (double waves = 2; span / waves >= 3 * step && waves <= most_waves; waves += 0.1) {
		double amplitude = 0;
		const double explained = wave_square_sum(series, flat, span / waves, &amplitude);
		if (explained > best) {
			best = explained;
			best_period = span / waves;
			best_amplitude = amplitude;
		}
	}
	if (best < 0.5 * flat->square_sum)
		return;
	/* A few waves tell a period badly, and whole steps are likelier. */
	const double whole_steps = round(best_period / step) * step;
	const bool is_whole = fabs(span / best_period - span / whole_steps) <= 0.25;
	shape->period_hours = is_whole ? whole_steps : best_period;
	shape->outgrows_swings = flat->rise > 2 * best_amplitude;
}

struct growth_shape growth_shape_of(const struct series *series)
{
	const struct flattened flat = flatten(series);
	struct growth_shape shape = { 0 };

	look_for_rise(series, &flat, &shape);
	if (!shape.is_jump)
		look_for_swings(series, &flat, &shape);
	return shape;
}
