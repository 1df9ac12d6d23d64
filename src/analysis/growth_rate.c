/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_rate.h"

#include <math.h>

#include "analysis/growth_line.h"

/*
 * The grid: lifetimes of none, of 1.4 intervals and then each 3.2 times the one before up to the
 * series' length, and one of 4.5 lengths, beyond which only the scale would change; shares from 1
 * down to 1/128; and s from 1 in steps of sqrt(2).
 *
 * The prior weights were chosen so that intervals contain the truth about as often as stated for
 * many kinds of heaps at once (bench/bench_trend.py). Lifetimes have the same weight, the lasting
 * one somewhat less. What is turned over within the series is mostly the whole level: the more
 * shares are possible, the less a short series distinguishes a part that is replaced at once from a
 * whole that is replaced slowly.
 */
enum { MAX_LIFETIMES = 16, SHARES = 8, SCALES = 144 };

static const double lasting_spans = 4.5, lasting_weight = 0.7;	/* each other lifetime weighs 1 */
static const double forgetful_whole = 0.9, lasting_whole = 0.4; /* of a share of 1 */
static const double sampling_only = 0.93;			/* of s = 1 */
static const double scale_weight = 0.35; /* of each further step, of what is left */

struct grid {
	double lifetimes[MAX_LIFETIMES]; /* hours */
	size_t count;
	bool left_out[MAX_LIFETIMES][SHARES]; /* members that weigh next to nothing */
};

static struct grid grid_make(const struct growth_data *series)
{
	const double first = 1.4, ratio = 3.2;
	struct grid grid = { .count = 1 };

	for (double lifetime = first * series->step_hours;
		lifetime < series->span_hours && grid.count + 1 < MAX_LIFETIMES; lifetime *= ratio)
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

/*
 * The profiles' counts of new objects determine lifetimes: of n objects in use with lifetime T, n /
 * T are new in an hour. This is rough, because lifetimes are not exponential, and some objects are
 * allocated and freed between two profiles.
 */
static double arrivals_likelihood(
	const struct growth_data *series, double supposed_rate, const struct line_noise *noise)
{
	const double roughness = 0.6;

	if (series->arrivals < 0)
		return 0;
	const double mean = fmax(series->runs[0].mean_value, series->object_weight);
	const double lifetime = fmax(noise->lifetime_hours, series->step_hours / 2);
	const double expected =
		series->object_hours * (noise->share / lifetime + fabs(supposed_rate) / mean);
	const double miss = log((series->arrivals + 0.5) / (expected + 0.5));
	/* Where none is in two profiles there is no end to how fast they come. */
	if (noise->lifetime_hours == 0 && miss > 0)
		return 0;
	return -miss * miss / 2 / (roughness * roughness + 1 / (series->arrivals + 1));
}

static void add_scales(struct average *average, const struct line_fit *fit,
	double degrees_of_freedom, double log_prior, double distance, double other_variance,
	enum growth_noise noise)
{
	/* Beyond what the residual needs, s only gets less likely. */
	const double wanted =
		noise == NOISE_SAMPLING ? 0 : fmax(log2(fit->residual / degrees_of_freedom), 0) + 8;
	const double variance = noise == NOISE_SAMPLING ? fit->sampling_variance : fit->variance;

	for (size_t step = 0; step < SCALES && (double)step / 2 <= wanted; step++) {
		const double log_scale = (double)step / 2 * M_LN2;
		const double scale = exp(log_scale);
		const double log_weight =
			fit->log_likelihood + log_prior +
			(noise == NOISE_SAMPLING ? 0 : log(scale_prior(step))) -
			(degrees_of_freedom * log_scale + fit->residual / scale) / 2;
		if (log_weight > average->largest - 40)
			average_add(average, log_weight,
				erfc(-distance / sqrt(2 * (scale * variance + other_variance))) /
					2);
	}
}

static void add_member(struct average *average, const struct growth_data *series,
	double supposed_rate, const struct line_noise *member, double log_prior,
	enum growth_noise noise)
{
	const double degrees_of_freedom = (double)(series->count - series->level_count) - 1;
	const struct line_fit fit = line_fit_make(series, supposed_rate, member);

	add_scales(average, &fit, degrees_of_freedom,
		log_prior + arrivals_likelihood(series, supposed_rate, member),
		supposed_rate - series->plain_rate, series->fold_error * series->fold_error, noise);
}

/* The probability that the rate is at most the supposed one, with the noise that goes with it. */
static double probability_below(const struct growth_data *series, const struct grid *grid,
	double supposed_rate, enum growth_noise noise)
{
	/* A pool of objects keeps their number, so that only sampling is left; traffic does not. */
	const double pool_weight = series->weight, traffic_weight = series->object_weight;
	const bool may_be_pool = noise == NOISE_SAMPLING && series->may_be_pool;
	struct average average = { .largest = -INFINITY };

	for (size_t lifetime = 0; lifetime < grid->count; lifetime++) {
		for (size_t halvings = 0; halvings < SHARES; halvings++) {
			const double prior = share_weight(grid, lifetime, halvings);
			struct line_noise member = { exp2(-(double)halvings),
				grid->lifetimes[lifetime], traffic_weight };
			if (prior == 0 || grid->left_out[lifetime][halvings])
				continue;
			add_member(&average, series, supposed_rate, &member, log(prior), noise);
			if (!may_be_pool)
				continue;
			member.weight = pool_weight;
			add_member(&average, series, supposed_rate, &member, log(prior), noise);
		}
	}
	return average.below / average.weights;
}

/* In which the probability is nearly a parabola, for a search that goes by secants. */
static double log_odds(double probability)
{
	const double min = 1e-300;

	return log(fmax(probability, min)) - log(fmax(1 - probability, min));
}

/* The rate at which the probability is `wanted`, on one side (-1, 1) of a rate. */
static double find_rate(const struct growth_data *series, const struct grid *grid, double wanted,
	double from, double width, int side, enum growth_noise noise)
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
static double expected_width(const struct growth_data *series, double rate)
{
	const double span = series->span_hours;

	return sqrt(series->variance / (double)series->count) / span +
	       sqrt(series->weight * (fabs(rate) + series->weight / span) / span);
}

/*
 * Cauchy's combination of tests (Liu and Xie, Journal of the American Statistical Association 115,
 * 2020): right for small p however the tests depend on each other, as those of onsets do. A test
 * that finds the opposite says nothing.
 */
struct combination {
	double weights, tangents;
};

static void combination_add(struct combination *combination, double p, double weight)
{
	const double min = 1e-300;

	combination->weights += weight;
	if (p < 0.5)
		combination->tangents += weight / tan(M_PI * fmax(p, min));
}

static double combination_p(const struct combination *combination)
{
	return atan2(1, combination->tangents / combination->weights) / M_PI;
}

/*
 * Growth from the start on, or from any other moment on: half of the attention is for either. Of
 * many moments so many are tried. An onset needs a point before it, and two after it.
 */
enum { ONSETS_TRIED = 8 };

bool growth_rate_find_p(const struct growth_data *series, double *p)
{
	const struct grid grid = grid_make(series);
	const double from_start = probability_below(series, &grid, 0, NOISE_PROGRAM);
	const size_t onsets = series->count > 3 ? series->count - 3 : 0;
	const size_t tried = onsets < ONSETS_TRIED ? onsets : ONSETS_TRIED;
	struct combination rise = { 0 };

	combination_add(&rise, from_start, 1);
	for (size_t i = 0; i < tried; i++) {
		struct growth_data bent = *series;
		const size_t at = tried == onsets ? 1 + i : 1 + i * (onsets - 1) / (tried - 1);
		/* What rises by less than its standard error is not worth the time. */
		const bool may_rise = growth_data_bend(&bent, series->points[at].hours, INFINITY) &&
				      bent.plain_rate > 0 &&
				      bent.plain_rate * bent.plain_rate * bent.square_hours >
					      fmin(series->plain_variance / (double)series->block,
						      growth_data_residual_variance(&bent));
		combination_add(&rise,
			may_rise ? probability_below(&bent, &grid, 0, NOISE_PROGRAM) : 1,
			1 / (double)tried);
	}
	*p = combination_p(&rise);
	return from_start > 1 - GROWTH_LEVEL;
}

/* Leaves out what weighs next to nothing where the series is as likely as can be. */
static void grid_thin(struct grid *grid, const struct growth_data *series)
{
	const double next_to_nothing = 12;
	double weights[MAX_LIFETIMES][SHARES], max = -INFINITY;

	for (size_t i = 0; i < grid->count; i++) {
		for (size_t j = 0; j < SHARES; j++) {
			const double prior = share_weight(grid, i, j);
			const struct line_noise member = { exp2(-(double)j), grid->lifetimes[i],
				series->object_weight };
			weights[i][j] = -INFINITY;
			if (prior == 0)
				continue;
			const struct line_fit fit =
				line_fit_make(series, series->plain_rate, &member);
			weights[i][j] = log(prior) + fit.log_likelihood - fit.residual / 2;
			max = fmax(max, weights[i][j]);
		}
	}
	for (size_t i = 0; i < grid->count; i++) {
		for (size_t j = 0; j < SHARES; j++)
			grid->left_out[i][j] = weights[i][j] < max - next_to_nothing;
	}
}

struct growth_rate growth_rate_find(const struct growth_data *series, enum growth_noise noise)
{
	const double rate = series->plain_rate, width = expected_width(series, rate);
	struct grid grid = grid_make(series);

	/* Noise of the program may be any. */
	if (noise == NOISE_SAMPLING && !series->may_be_pool && series->arrivals < 0)
		grid_thin(&grid, series);
	return (struct growth_rate){ rate, find_rate(series, &grid, 0.025, rate, width, -1, noise),
		find_rate(series, &grid, 0.975, rate, width, 1, noise) };
}

bool growth_rate_falls(const struct growth_data *series)
{
	const struct grid grid = grid_make(series);

	return probability_below(series, &grid, 0, NOISE_PROGRAM) > 1 - GROWTH_LEVEL;
}
