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

	for (size_t first = 0; first < series->count;) {
		const size_t end = series_run_end(series, first);
		double t_mean = 0, y_mean = 0;
		for (size_t i = first; i < end; i++) {
			t_mean += series->points[i].hours / (double)(end - first);
			y_mean += series->points[i].value / (double)(end - first);
		}
		for (size_t i = first; i < end; i++) {
			flat.hours[i] = series->points[i].hours - t_mean;
			flat.residuals[i] = series->points[i].value - y_mean;
			tt += flat.hours[i] * flat.hours[i];
			ty += flat.hours[i] * flat.residuals[i];
		}
		longest = fmax(longest, flat.hours[end - 1] - flat.hours[first]);
		first = end;
	}
	for (size_t i = 0; i < series->count; i++) {
		flat.residuals[i] -= ty / tt * flat.hours[i];
		flat.square_sum += flat.residuals[i] * flat.residuals[i];
	}
	flat.rise = ty / tt * longest;
	return flat;
}

/* The square sum that a step before point `at` leaves, with the run's own levels. */
static double step_square_sum(const struct series *series, size_t at, double *jump)
{
	double left = 0;

	*jump = 0;
	for (size_t first = 0; first < series->count;) {
		const size_t run_end = series_run_end(series, first);
		const bool is_split = first < at && at < run_end;
		const size_t ends[] = { is_split ? at : run_end, run_end };
		double means[2] = { 0 };
		for (size_t part = 0, from = first; part < 2 && from < run_end; part++) {
			double square_sum = 0;
			for (size_t i = from; i < ends[part]; i++)
				means[part] +=
					series->points[i].value / (double)(ends[part] - from);
			for (size_t i = from; i < ends[part]; i++) {
				const double rest = series->points[i].value - means[part];
				square_sum += rest * rest;
			}
			left += square_sum;
			from = ends[part];
		}
		if (is_split)
			*jump = means[1] - means[0];
		first = run_end;
	}
	return left;
}

static void look_for_step(
	const struct series *series, const struct flattened *flat, struct growth_shape *shape)
{
	double best = INFINITY, best_jump = 0;
	size_t best_at = 0;

	for (size_t at = 2; at + 1 < series->count; at++) {
		double jump = 0;
		if (series->points[at].run != series->points[at - 1].run)
			continue;
		const double left = step_square_sum(series, at, &jump);
		if (left < best) {
			best = left;
			best_at = at;
			best_jump = jump;
		}
	}
	/* The step alone, between two neighbours, must be most of the jump. */
	if (best_at == 0 || series->count < 5 || best > 0.35 * flat->square_sum ||
		fabs(best_jump) < 4 * sqrt(2 * series->variance))
		return;
	const double step = series->points[best_at].value - series->points[best_at - 1].value;
	if (step / best_jump < 0.6)
		return;
	shape->is_jump = true;
	shape->jump = best_jump;
	shape->jump_hours = (series->points[best_at].hours + series->points[best_at - 1].hours) / 2;
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

/* At least two periods in the longest run, four points in a period. */
static void look_for_swings(
	const struct series *series, const struct flattened *flat, struct growth_shape *shape)
{
	const double noise = (double)series->count * series->variance;
	double span = 0, best = 0, best_period = 0, best_amplitude = 0;

	for (size_t i = 0; i < series->count; i++)
		span = fmax(span, 2 * fabs(flat->hours[i]));
	if (series->count < 8 || flat->square_sum < 3 * noise)
		return;
	for (double waves = 2; span / waves >= 3 * series->step_hours; waves += 0.1) {
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
	shape->period_hours = best_period;
	shape->outgrows_swings = flat->rise > 2 * best_amplitude;
}

struct growth_shape growth_shape_of(const struct series *series)
{
	const struct flattened flat = flatten(series);
	struct growth_shape shape = { 0 };

	look_for_step(series, &flat, &shape);
	if (!shape.is_jump)
		look_for_swings(series, &flat, &shape);
	return shape;
}
