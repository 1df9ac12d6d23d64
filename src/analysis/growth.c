/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth.h"

#include <math.h>

#include "analysis/growth_line.h"
#include "analysis/growth_data.h"
#include "analysis/growth_shape.h"

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
static const double level = 0.05;	 /* of growth, of a single series */

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

/* Noise of sampling, or also the program's own fluctuation. */
enum noise { NOISE_SAMPLING, NOISE_PROGRAM };

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
	enum noise noise)
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
	double supposed_rate, const struct line_noise *member, double log_prior, enum noise noise)
{
	const double degrees_of_freedom = (double)(series->count - series->level_count) - 1;
	const struct line_fit fit = line_fit_make(series, supposed_rate, member);

	add_scales(average, &fit, degrees_of_freedom,
		log_prior + arrivals_likelihood(series, supposed_rate, member),
		supposed_rate - series->plain_rate, series->fold_error * series->fold_error, noise);
}

/* The probability that the rate is at most the supposed one, with the noise that goes with it. */
static double probability_below(const struct growth_data *series, const struct grid *grid,
	double supposed_rate, enum noise noise)
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

/* Whether it falls rather. */
static bool find_p(const struct growth_data *series, struct growth *growth)
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
	growth->p = combination_p(&rise);
	return from_start > 1 - level;
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

static void find_rates(const struct growth_data *series, enum noise noise, struct growth *growth)
{
	struct grid grid = grid_make(series);

	/* Noise of the program may be any. */
	if (noise == NOISE_SAMPLING && !series->may_be_pool && series->arrivals < 0)
		grid_thin(&grid, series);

	growth->rate = series->plain_rate;
	const double width = expected_width(series, growth->rate);
	growth->low = find_rate(series, &grid, 0.025, growth->rate, width, -1, noise);
	growth->high = find_rate(series, &grid, 0.975, growth->rate, width, 1, noise);
}

static void count_intervals(const struct growth_data *series, struct growth *growth)
{
	growth->averaged = (unsigned)series->block;
	for (size_t i = 1; i < series->count; i++) {
		if (series->points[i].run != series->points[i - 1].run)
			continue;
		growth->intervals++;
		growth->rises += series->points[i].value > series->points[i - 1].value;
		growth->falls += series->points[i].value < series->points[i - 1].value;
	}
}

static void name_kind(const struct growth_shape *shape, bool falls, struct growth *growth)
{
	const unsigned min_changes = 2; /* one may be a step that is too small to be called one */
	const bool grows = growth->p < level && growth->low > 0;

	growth->period_hours = shape->period_hours;
	if (shape->is_jump)
		growth->kind = GROWTH_JUMP;
	else if (grows && growth->rises >= min_changes && !shape->is_step &&
		 (shape->period_hours == 0 || shape->outgrows_swings))
		growth->kind = GROWTH_STEADY;
	else if (shape->period_hours > 0)
		growth->kind = GROWTH_CYCLE;
	else if (falls && growth->falls >= min_changes && growth->high < 0)
		growth->kind = GROWTH_FALL;
	growth->may_be_step =
		growth->kind == GROWTH_NONE && grows && shape->is_step && shape->step_count > 0;
}

/*
 * Whether each phase's own level and a common line leave more than sampling does: the period is not
 * quite the one that was found, or no whole number of intervals, so that phases are other ones each
 * time.
 */
static bool is_fold_poor(const struct growth_data *folded)
{
	const double max = 3;

	return growth_data_residual_variance(folded) >
	       max * folded->plain_variance / (double)folded->block;
}

/* The size of a step is what the growth beside it has not added. */
static void copy_steps(
	const struct growth_data *series, const struct growth_shape *shape, struct growth *growth)
{
	for (size_t i = 0; i < shape->step_count; i++) {
		struct growth_step step = shape->steps[i].step;
		const size_t before = shape->steps[i].before;
		if (shape->grows_beside_steps)
			step.size -= growth->rate * shape->steps[i].growth_hours;
		step.is_of_onset = growth->has_onset &&
				   growth_step_is_of_onset(&step, series->points[before].hours,
					   growth->onset_hours, growth->rate);
		growth->steps[growth->step_count++] = step;
		growth->may_go_on = growth->kind == GROWTH_JUMP && before + 2 == series->count;
	}
}

/* Of the values, up or down, an hour. */
static double mean_change(const struct growth_data *series)
{
	double changes = 0, hours = 0;

	for (size_t i = 1; i < series->count; i++) {
		const struct growth_data_point *const point = &series->points[i];
		if (point->run != point[-1].run)
			continue;
		changes += fabs(point->value - point[-1].value);
		hours += point->hours - point[-1].hours;
	}
	return changes / hours;
}

static const double in_interval = 1.92; /* half of the 95% point of chi-squared */

/*
 * Growth that begins late below swings. Each phase has a level of its own in a fold, so that what
 * is left of the swings does not matter. Compared as shapes are (analysis/growth_shape.h).
 */
static void find_onset_below_swings(const struct growth_data *folded, struct growth_shape *shape)
{
	const double clearly = 3;
	const double half_count = (double)folded->count / 2;
	const double noise = folded->plain_variance / (double)folded->block;
	const double straight = fmax(growth_data_residual_variance(folded), noise);
	double rests[GROWTH_POINTS], min = INFINITY;
	size_t best = 0;

	for (size_t at = 0; at < folded->count; at++) {
		struct growth_data bent = *folded;
		rests[at] = INFINITY;
		if (!growth_data_may_bend(folded, at) ||
			!growth_data_bend(&bent, folded->points[at].hours, INFINITY) ||
			bent.plain_rate <= 0)
			continue;
		rests[at] = fmax(growth_data_residual_variance(&bent), folded->min_variance);
		if (rests[at] < min) {
			min = rests[at];
			best = at;
		}
	}
	/* What is less than the noise is no reason. */
	shape->has_onset = half_count * log(straight / fmax(min, noise)) >
			   1.5 * log((double)folded->count) + clearly;
	shape->onset_hours = folded->points[best].hours;
	shape->onset_low = shape->onset_high = shape->onset_hours;
	for (size_t at = 0; at < folded->count; at++) {
		if (half_count * log(rests[at] / min) > in_interval)
			continue;
		const struct growth_moment moment = growth_data_moment(folded, at, at);
		shape->onset_low = fmin(shape->onset_low, moment.low);
		shape->onset_high = fmax(shape->onset_high, moment.high);
	}
}

/* Which ends of it may be. None is ever found: a fold has few points for one. */
static void find_end_below_swings(const struct growth_data *folded, struct growth_shape *shape)
{
	const double half_count = (double)folded->count / 2;
	const double noise = folded->plain_variance / (double)folded->block;
	struct growth_data bent = *folded;

	shape->end_hours = shape->end_low = shape->end_high =
		folded->points[folded->count - 1].hours;
	shape->goes_on = growth_data_bend(&bent, shape->onset_hours, INFINITY);
	const double rest = fmax(growth_data_residual_variance(&bent), noise);
	for (size_t at = 0; at < folded->count && shape->goes_on; at++) {
		const double hours = folded->points[at].hours;
		if (hours <= shape->onset_hours || !growth_data_may_bend(folded, at) ||
			!growth_data_bend(&bent, shape->onset_hours, hours))
			continue;
		shape->goes_on =
			half_count * log(fmax(growth_data_residual_variance(&bent), noise) / rest) >
			in_interval;
		shape->end_low = shape->goes_on ? shape->end_low : hours;
	}
}

/* Whether phases with levels of their own and growth, from its onset on, leave about the noise. */
static bool fold_by_phase(
	const struct growth_data *series, struct growth_shape *shape, struct growth_data *folded)
{
	if (!growth_data_fold(series, shape->period_hours, true, folded))
		return false;
	if (shape->outgrows_swings)
		find_onset_below_swings(folded, shape);
	struct growth_data bent = *folded;
	if (shape->has_onset)
		shape->has_onset = growth_data_bend(&bent, shape->onset_hours, INFINITY);
	if (shape->has_onset)
		find_end_below_swings(folded, shape);
	if (!is_fold_poor(shape->has_onset ? &bent : folded))
		return true;
	shape->has_onset = false;
	return false;
}

/* The series as it is fitted: folded, or with levels between steps. */
static struct growth_data shaped_series(
	const struct growth_data *series, struct growth_shape *shape)
{
	size_t steps[GROWTH_MAX_STEPS];
	struct growth_data shaped;

	/* Phases of a period that is not quite the right one would pass for growth. */
	if (shape->period_hours > 0 && fold_by_phase(series, shape, &shaped)) {
		shaped.fold_error =
			shape->period_error_hours / shape->period_hours * mean_change(series);
		return shaped;
	}
	/* An average is of whole intervals, and a period is not: by about a quarter of one. */
	if (shape->period_hours > 0 &&
		growth_data_fold(series, shape->period_hours, false, &shaped)) {
		shaped.fold_error =
			mean_change(series) * series->usual_hours / 4 / sqrt(shaped.square_hours);
		return shaped;
	}
	shaped = *series;
	for (size_t i = 0; i < shape->step_count; i++)
		steps[i] = shape->steps[i].before;
	if (!shape->grows_beside_steps || !growth_data_split(&shaped, steps, shape->step_count))
		return *series;
	return shaped;
}

/* A line through the last two points, from the level before them, and two steps are the same. */
static void check_late_onset(const struct growth_data *series, struct growth *growth)
{
	const struct growth_data_point *const points = &series->points[series->count - 3];

	if ((growth->kind != GROWTH_STEADY && growth->kind != GROWTH_FALL) || !growth->has_onset ||
		growth->has_end || growth->onset_hours < points[0].hours)
		return;
	growth->may_be_step = true;
	growth->goes_on = false;
	growth->end_low = points[1].hours;
}

static double end_of_growth(const struct growth_shape *shape)
{
	return shape->has_end ? shape->end_hours : INFINITY;
}

/* Whether a fall continues depends on the onset alone: a fall makes no site suspect. */
static bool falls_since(const struct growth_data *series, double onset_hours, double end_hours)
{
	struct growth_data bent = *series;

	if (!growth_data_bend(&bent, onset_hours, end_hours))
		return false;
	const struct grid grid = grid_make(&bent);
	return probability_below(&bent, &grid, 0, NOISE_PROGRAM) > 1 - level;
}

static bool has_large_step(const struct growth_data *series, const struct growth_shape *shape)
{
	for (size_t i = 0; i < shape->step_count; i++) {
		if (fabs(shape->steps[i].step.size) >= growth_data_min_step(series))
			return true;
	}
	return false;
}

static void copy_moments(const struct growth_shape *shape, struct growth *growth)
{
	growth->has_onset = shape->has_onset;
	growth->onset_hours = shape->onset_hours;
	growth->onset_low = shape->onset_low;
	growth->onset_high = shape->onset_high;
	growth->has_end = shape->has_end;
	growth->goes_on = shape->goes_on;
	growth->end_hours = shape->end_hours;
	growth->end_low = shape->end_low;
	growth->end_high = shape->end_high;
}

bool growth_fit(const struct growth_point *points, size_t count,
	const struct growth_objects *objects, struct growth *ret)
{
	struct growth_data series;
	struct growth growth = { 0 };

	if (!growth_data_make(points, count, objects, &series))
		return false;
	struct growth_shape shape = growth_shape_of(&series);
	struct growth_data shaped = shaped_series(&series, &shape);
	const bool is_folded = shaped.period_hours > 0;
	const struct growth_data folded = shaped;
	bool falls = find_p(&shaped, &growth);
	const bool falls_later = shape.has_onset && shape.falls &&
				 falls_since(&shaped, shape.onset_hours, end_of_growth(&shape));
	falls |= falls_later;
	/* What is no growth leaves the step. */
	shape.is_jump |= shape.beats_level && growth.p >= level;
	if (shape.grows_beside_steps && growth.p >= level && !falls) {
		shape.grows_beside_steps = false;
		shape.is_jump = has_large_step(&series, &shape);
		shaped = series;
	}
	if ((shape.has_onset || shape.has_end) &&
		(shape.falls ? (shape.has_onset ? falls_later : falls) : growth.p < level) &&
		growth_data_bend(&shaped, shape.has_onset ? shape.onset_hours : -INFINITY,
			end_of_growth(&shape)))
		copy_moments(&shape, &growth);
	/* What a fold leaves of swings is noise, because the period is not quite known. */
	const enum noise noise = shape.period_hours > 0 ? NOISE_PROGRAM : NOISE_SAMPLING;
	find_rates(&shaped, noise, &growth);
	/* No growth has no onset, and steps are all that there is. */
	if ((growth.has_onset || growth.has_end || shape.grows_beside_steps) &&
		(falls ? growth.high >= 0 : growth.low <= 0)) {
		shape.is_jump = shape.grows_beside_steps && has_large_step(&series, &shape);
		growth.has_onset = growth.has_end = shape.grows_beside_steps = false;
		find_rates(is_folded ? &folded : &series, noise, &growth);
	}
	count_intervals(&series, &growth);
	growth.fluctuates = series.fluctuates;
	name_kind(&shape, falls, &growth);
	check_late_onset(&series, &growth);
	const bool is_undecided = growth.kind == GROWTH_NONE && growth.may_be_step;
	if (shape.is_jump || shape.grows_beside_steps || is_undecided)
		copy_steps(&series, &shape, &growth);
	*ret = growth;
	return true;
}

size_t growth_own_steps(const struct growth *growth, struct growth_step ret[GROWTH_MAX_STEPS])
{
	size_t count = 0;

	for (size_t i = 0; i < growth->step_count; i++) {
		if (!growth->steps[i].is_of_onset)
			ret[count++] = growth->steps[i];
	}
	return count;
}

const struct growth_step *growth_largest_step(const struct growth *growth)
{
	const struct growth_step *largest = &growth->steps[0];

	for (size_t i = 1; i < growth->step_count; i++) {
		if (fabs(growth->steps[i].size) > fabs(largest->size))
			largest = &growth->steps[i];
	}
	return largest;
}
