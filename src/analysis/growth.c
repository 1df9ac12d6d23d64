/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/growth_line.h"
#include "analysis/growth_series.h"
#include "analysis/growth_shape.h"

/*
 * The grid: lifetimes of none, of 1.4 intervals and then each 3.2 times the one before up to the
 * series' length, and one of nine lengths, beyond which only the scale would change; shares from 1
 * down to 1/128; and s from 1 in steps of sqrt(2).
 *
 * What each weighs beforehand was chosen such that intervals hold the truth about as often as they
 * say for heaps of many kinds at once (bench/bench_trend.py): with less weight for "all is turned
 * over" and "nothing but sampling" few profiles would tell little; with more, intervals of slowly
 * changing heaps would be too narrow.
 */
enum { MOST_LIFETIMES = 16, SHARES = 8, SCALES = 144 };

static const double forgetful_weight = 0.57, lasting_weight = 0.36; /* and the rest between */
static const double lasting_spans = 9;
static const double forgetful_whole = 0.6, other_whole = 0.4;	       /* of a share of 1 */
static const double sampling_only = 0.95, sampling_only_lasting = 0.9; /* of s = 1 */
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

static double lifetime_weight(const struct grid *grid, size_t at)
{
	if (at == 0)
		return forgetful_weight;
	const double between = 1 - forgetful_weight - lasting_weight;
	return at + 1 == grid->count ? lasting_weight : between / (double)(grid->count - 2);
}

/* Whole or halved again and again: half as likely each where nothing lasts, else all alike. */
static double share_weight(size_t lifetime, size_t halvings)
{
	const double whole = lifetime == 0 ? forgetful_whole : other_whole;

	if (halvings == 0)
		return whole;
	return (1 - whole) * (lifetime == 0 ? exp2(-(double)halvings) : 1.0 / (SHARES - 1));
}

static double scale_prior(size_t lifetime, size_t step)
{
	const double one = lifetime == 0 ? sampling_only : sampling_only_lasting;

	return step == 0 ? one : (1 - one) * scale_weight;
}

/* Averages over the grid; relative to the largest weight so far, so that nothing overflows. */
struct average {
	double largest; /* logarithm */
	double weights;
	double rates;
	double below; /* the probability that the rate is at most the supposed one */
};

static void average_add(struct average *average, double log_weight, double rate, double below)
{
	if (log_weight > average->largest) {
		const double shrink = exp(average->largest - log_weight);
		average->weights *= shrink;
		average->rates *= shrink;
		average->below *= shrink;
		average->largest = log_weight;
	}
	const double weight = exp(log_weight - average->largest);
	average->weights += weight;
	average->rates += weight * rate;
	average->below += weight * below;
}

static void add_scales(struct average *average, const struct line_fit *fit, double degrees,
	double log_prior, size_t lifetime, double supposed_rate)
{
	/* Beyond what the residual asks for, s only gets less likely. */
	const double wanted = fmax(log2(fit->residual / degrees), 0) + 8;
	const double distance = (supposed_rate - fit->rate) * sqrt(fit->precision);

	for (size_t step = 0; step < SCALES && (double)step / 2 <= wanted; step++) {
		const double log_scale = (double)step / 2 * M_LN2;
		const double scale = exp(log_scale);
		const double log_weight = fit->log_likelihood + log_prior +
					  log(scale_prior(lifetime, step)) -
					  (degrees * log_scale + fit->residual / scale) / 2;
		if (log_weight > average->largest - 40)
			average_add(average, log_weight, fit->rate,
				erfc(-distance / sqrt(2 * scale)) / 2);
	}
}

/* The probability that the rate is at most the supposed one, with the noise that goes with it. */
static double probability_below(
	const struct series *series, const struct grid *grid, double supposed_rate, double *mean)
{
	const double degrees = (double)(series->count - series->run_count) - 1;
	struct average average = { .largest = -INFINITY };

	for (size_t lifetime = 0; lifetime < grid->count; lifetime++) {
		for (size_t halvings = 0; halvings < SHARES; halvings++) {
			const struct line_noise noise = { exp2(-(double)halvings),
				grid->lifetimes[lifetime] };
			const struct line_fit fit = line_fit_make(series, supposed_rate, &noise);
			const double prior =
				lifetime_weight(grid, lifetime) * share_weight(lifetime, halvings);
			add_scales(&average, &fit, degrees, log(prior), lifetime, supposed_rate);
		}
	}
	*mean = average.rates / average.weights;
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
	double from, double width, int side)
{
	const double goal = log_odds(wanted), close = 0.005;
	double mean, inner = from, outer = from;
	double inner_miss = log_odds(probability_below(series, grid, from, &mean)) - goal;
	double outer_miss = inner_miss;

	if (side * inner_miss >= 0)
		return from;
	for (int i = 0; i < 60 && side * outer_miss < 0; i++, width *= 2) {
		inner = outer;
		inner_miss = outer_miss;
		outer += side * width;
		outer_miss = log_odds(probability_below(series, grid, outer, &mean)) - goal;
	}
	/* The Illinois form of false position: an end that stays twice counts half. */
	int moved = 0;
	for (int i = 0; i < 40 && fabs(outer - inner) > close * fabs(outer - from); i++) {
		const double at =
			(inner * outer_miss - outer * inner_miss) / (outer_miss - inner_miss);
		const double miss = log_odds(probability_below(series, grid, at, &mean)) - goal;
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

static struct growth find_growth(const struct series *series)
{
	const struct grid grid = grid_make(series);
	struct growth growth = { 0 };
	double rate;

	growth.p = probability_below(series, &grid, 0, &rate);
	probability_below(series, &grid, rate, &growth.rate);
	const double width = expected_width(series, growth.rate);
	growth.low = find_rate(series, &grid, 0.025, growth.rate, width, -1);
	growth.high = find_rate(series, &grid, 0.975, growth.rate, width, 1);
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
	if (growth->p < level && (shape.period_hours == 0 || shape.outgrows_swings))
		growth->kind = GROWTH_STEADY;
	else if (shape.period_hours > 0)
		growth->kind = GROWTH_CYCLE;
	else if (growth->p > 1 - level)
		growth->kind = GROWTH_FALL;
}

bool growth_fit(const struct growth_point *points, size_t count, struct growth *ret)
{
	struct series series;

	if (!series_make(points, count, &series))
		return false;
	const struct growth_shape shape = growth_shape_of(&series);
	struct series whole_periods;
	const bool has_periods =
		shape.period_hours > 0 &&
		series_average_periods(&series, shape.period_hours, &whole_periods);
	struct growth growth = find_growth(has_periods ? &whole_periods : &series);
	count_rises(&series, &growth);
	name_kind(&shape, &growth);
	*ret = growth;
	return true;
}
