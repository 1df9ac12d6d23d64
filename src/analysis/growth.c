/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth.h"

#include <math.h>

#include "analysis/growth_line.h"
#include "analysis/growth_series.h"
#include "analysis/growth_shape.h"

/*
 * The grid: lifetimes of none, of 1.4 intervals and then each 3.2 times the one before up to the
 * series' length, and one of 4.5 lengths, beyond which only the scale would change; shares from 1
 * down to 1/128; and s from 1 in steps of sqrt(2).
 *
 * What each weighs beforehand was chosen such that intervals hold the truth about as often as they
 * say for heaps of many kinds at once (bench/bench_trend.py). Lifetimes weigh alike, the lasting
 * one somewhat less. What is turned over within the series is mostly the whole level: the more
 * shares are thought possible, the less a short series tells a part that is replaced at once from a
 * whole that is replaced slowly.
 */
enum { MOST_LIFETIMES = 16, SHARES = 8, SCALES = 144 };

static const double lasting_spans = 4.5, lasting_weight = 0.7;	/* each other lifetime weighs 1 */
static const double forgetful_whole = 0.9, lasting_whole = 0.4; /* of a share of 1 */
static const double sampling_only = 0.93;			/* of s = 1 */
static const double scale_weight = 0.35; /* of each further step, of what is left */

struct grid {
	double lifetimes[MOST_LIFETIMES]; /* hours */
	size_t count;
};

static struct grid grid_make(const struct series *series)
{
	const double first = 1.4, ratio = 3.2;
	struct grid grid = { .count = 1 };

	for (double lifetime = first * series->step_hours;
		lifetime < series->span_hours && grid.count + 1 < MOST_LIFETIMES; lifetime *= ratio)
		grid.lifetimes[grid.count++] = lifetime;
	grid.lifetimes[grid.count++] = lasting_spans * series->span_hours;
	return grid;
}

/*
 * Where nothing lasts a whole is likeliest, then a half, and so on; where all does, parts are
 * alike.
 */
static double share_weight(const struct grid *grid, size_t lifetime, size_t halvings)
{
	if (lifetime == 0)
		return halvings == 0 ? forgetful_whole
				     : (1 - forgetful_whole) * exp2(-(double)halvings);
	if (lifetime + 1 == grid->count)
		return lasting_weight *
		       (halvings == 0 ? lasting_whole : (1 - lasting_whole) / (SHARES - 1));
	return halvings == 0;
}

static double scale_prior(size_t step)
{
	return step == 0 ? sampling_only : (1 - sampling_only) * scale_weight;
}

/* Averages over the grid; relative to the largest weight so far, so that nothing overflows. */
struct average {
	double largest; /* logarithm */
	double weights;
	double below; /* the probability that the rate is at most the supposed one */
};

static void average_add(struct average *average, double log_weight, double below)
{
	if (log_weight > average->largest) {
		const double shrink = exp(average->largest - log_weight);
		average->weights *= shrink;
		average->below *= shrink;
		average->largest = log_weight;
	}
	const double weight = exp(log_weight - average->largest);
	average->weights += weight;
	average->below += weight * below;
}

/* Whose noise is meant: that of sampling, or also the program's own ups and downs. */
enum noise { NOISE_SAMPLING, NOISE_PROGRAM };

static void add_scales(struct average *average, const struct line_fit *fit, double degrees,
	double log_prior, double distance, enum noise noise)
{
	/* Beyond what the residual asks for, s only gets less likely. */
	const double wanted =
		noise == NOISE_SAMPLING ? 0 : fmax(log2(fit->residual / degrees), 0) + 8;

	for (size_t step = 0; step < SCALES && (double)step / 2 <= wanted; step++) {
		const double log_scale = (double)step / 2 * M_LN2;
		const double scale = exp(log_scale);
		const double log_weight = fit->log_likelihood + log_prior +
					  (noise == NOISE_SAMPLING ? 0 : log(scale_prior(step))) -
					  (degrees * log_scale + fit->residual / scale) / 2;
		if (log_weight > average->largest - 40)
			average_add(average, log_weight,
				erfc(-distance / sqrt(2 * scale * fit->variance)) / 2);
	}
}

/* The probability that the rate is at most the supposed one, with the noise that goes with it. */
static double probability_below(const struct series *series, const struct grid *grid,
	double supposed_rate, enum noise noise)
{
	const double degrees = (double)(series->count - series->level_count) - 1;
	struct average average = { .largest = -INFINITY };

	for (size_t lifetime = 0; lifetime < grid->count; lifetime++) {
		for (size_t halvings = 0; halvings < SHARES; halvings++) {
			const double prior = share_weight(grid, lifetime, halvings);
			const struct line_noise member = { exp2(-(double)halvings),
				grid->lifetimes[lifetime] };
			if (prior == 0)
				continue;
			const struct line_fit fit = line_fit_make(series, supposed_rate, &member);
			add_scales(&average, &fit, degrees, log(prior),
				supposed_rate - series->plain_rate, noise);
		}
	}
	return average.below / average.weights;
}

/* In which the probability is nearly a parabola, for a search that goes by secants. */
static double log_odds(double probability)
{
	const double least = 1e-300;

	return log(fmax(probability, least)) - log(fmax(1 - probability, least));
}

/* The rate at which the probability is `wanted`, on one side (-1, 1) of a rate. */
static double find_rate(const struct series *series, const struct grid *grid, double wanted,
	double from, double width, int side, enum noise noise)
{
	const double goal = log_odds(wanted), close = 0.005;
	double inner = from, outer = from;
	double inner_miss = log_odds(probability_below(series, grid, from, noise)) - goal;
	double outer_miss = inner_miss;

	if (side * inner_miss >= 0)
		return from;
	for (int i = 0; i < 60 && side * outer_miss < 0; i++, width *= 2) {
		inner = outer;
		inner_miss = outer_miss;
		outer += side * width;
		outer_miss = log_odds(probability_below(series, grid, outer, noise)) - goal;
	}
	/* The Illinois form of false position: an end that stays twice counts half. */
	int moved = 0;
	for (int i = 0; i < 40 && fabs(outer - inner) > close * fabs(outer - from); i++) {
		const double at =
			(inner * outer_miss - outer * inner_miss) / (outer_miss - inner_miss);
		const double miss = log_odds(probability_below(series, grid, at, noise)) - goal;
		if (fabs(miss) < close)
			return at;
		if (side * miss < 0) {
			inner = at;
			inner_miss = miss;
			outer_miss /= moved == -1 ? 2 : 1;
			moved = -1;
		} else {
			outer = at;
			outer_miss = miss;
			inner_miss /= moved == 1 ? 2 : 1;
			moved = 1;
		}
	}
	return (inner + outer) / 2;
}

/* About the standard error of the rate. */
static double expected_width(const struct series *series, double rate)
{
	const double span = series->span_hours;

	return sqrt(series->variance / (double)series->count) / span +
	       sqrt(series->weight * (fabs(rate) + series->weight / span) / span);
}

static struct growth find_growth(const struct series *series, enum noise noise)
{
	const struct grid grid = grid_make(series);
	struct growth growth = { .rate = series->plain_rate };

	growth.p = probability_below(series, &grid, 0, NOISE_PROGRAM);
	const double width = expected_width(series, growth.rate);
	growth.low = find_rate(series, &grid, 0.025, growth.rate, width, -1, noise);
	growth.high = find_rate(series, &grid, 0.975, growth.rate, width, 1, noise);
	return growth;
}

static void count_rises(const struct series *series, struct growth *growth)
{
	for (size_t i = 1; i < series->count; i++) {
		if (series->points[i].run != series->points[i - 1].run)
			continue;
		growth->intervals++;
		growth->rises += series->points[i].value > series->points[i - 1].value;
	}
}

static void name_kind(const struct growth_shape *found, struct growth *growth)
{
	const struct growth_shape shape = *found;
	const double level = 0.05;

	if (shape.is_jump) {
		growth->kind = GROWTH_JUMP;
		growth->jump = shape.jump;
		growth->jump_hours = shape.jump_hours;
		growth->jump_lasted_hours = shape.jump_lasted_hours;
		return;
	}
	growth->period_hours = shape.period_hours;
	if (growth->p < level && growth->low > 0 &&
		(shape.period_hours == 0 || shape.outgrows_swings))
		growth->kind = GROWTH_STEADY;
	else if (shape.period_hours > 0)
		growth->kind = GROWTH_CYCLE;
	else if (growth->p > 1 - level)
		growth->kind = GROWTH_FALL;
}

/*
 * Whether each phase's own level and a common line leave more than sampling does: the period is not
 * quite the one that was found, or no whole number of intervals, so that phases are other ones each
 * time.
 */
static bool is_folded_badly(const struct series *folded)
{
	const double most = 3;
	const double degrees = (double)(folded->count - folded->level_count) - 1;
	double square_sum = 0;

	for (size_t r = 0; r < folded->run_count; r++) {
		const struct series_run *const run = &folded->runs[r];
		double levels[SERIES_PHASES] = { 0 };
		size_t counts[SERIES_PHASES] = { 0 };
		for (size_t i = run->first; i < run->end; i++) {
			const struct series_point *const point = &folded->points[i];
			levels[point->phase] += (point->value - levels[point->phase]) /
						(double)++counts[point->phase];
		}
		for (size_t i = run->first; i < run->end; i++) {
			const struct series_point *const point = &folded->points[i];
			const double rest = point->value - levels[point->phase] -
					    folded->plain_rate * point->lever;
			square_sum += rest * rest;
		}
	}
	return square_sum > most * degrees * folded->variance / (double)folded->block;
}

bool growth_fit(const struct growth_point *points, size_t count, struct growth *ret)
{
	struct series series;

	if (!series_make(points, count, &series))
		return false;
	const struct growth_shape shape = growth_shape_of(&series);
	struct series folded;
	const bool is_folded =
		shape.period_hours > 0 && series_fold(&series, shape.period_hours, &folded);
	struct growth growth =
		is_folded ? find_growth(&folded,
				    is_folded_badly(&folded) ? NOISE_PROGRAM : NOISE_SAMPLING)
			  : find_growth(&series, NOISE_SAMPLING);
	count_rises(&series, &growth);
	name_kind(&shape, &growth);
	*ret = growth;
	return true;
}
