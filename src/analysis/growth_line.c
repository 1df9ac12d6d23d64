/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_line.h"

#include <math.h>

/* What is filtered, side by side: the time, the value, and for each phase 1 at its points. */
enum { TIME, VALUE, LEVELS, MAX_SIDES = LEVELS + SERIES_PHASES };

struct kalman_filter {
	double level_variance; /* of the state that forgets */
	double lifetime_hours;
	double walk_variance; /* w |b|, an hour of growth */
	double excess_weight; /* variance of what a point has alone, over its value */

	size_t sides;

	/* Covariance of the two states, and the expectation of each, given what was measured. */
	double level_level, level_walk, walk_walk;
	double level[MAX_SIDES], walk[MAX_SIDES];

	/* Sums of products of the innovations over their variance. */
	double products[MAX_SIDES][MAX_SIDES];
	double log_determinant;
	double determinant; /* what of it is not in there yet */

	/* Times are mostly regular, but for what averages leave: the last answers of survival(). */
	double last_hours[2], last_kept[2];
};

/* The share of what forgets that is left after a while. */
static double survival(struct kalman_filter *filter, double hours)
{
	const double alike = 1e-9;

	for (size_t i = 0; i < 2; i++) {
		if (fabs(hours - filter->last_hours[i]) <= alike * hours)
			return filter->last_kept[i];
	}
	filter->last_hours[1] = filter->last_hours[0];
	filter->last_kept[1] = filter->last_kept[0];
	filter->last_hours[0] = hours;
	filter->last_kept[0] =
		filter->lifetime_hours > 0 ? exp(-hours / filter->lifetime_hours) : 0;
	return filter->last_kept[0];
}

static void predict(struct kalman_filter *filter, double hours, double course)
{
	const double kept = survival(filter, hours);

	filter->level_level =
		kept * kept * filter->level_level + (1 - kept * kept) * filter->level_variance;
	filter->level_walk *= kept;
	filter->walk_walk += course * filter->walk_variance;
	for (size_t side = 0; side < filter->sides; side++)
		filter->level[side] *= kept;
}

static void update(struct kalman_filter *filter, const double measured[MAX_SIDES], double excess)
{
	const double level_gain = filter->level_level + filter->level_walk;
	const double walk_gain = filter->level_walk + filter->walk_walk;
	const double variance = level_gain + walk_gain + filter->excess_weight * excess;
	double innovation[MAX_SIDES];

	for (size_t side = 0; side < filter->sides; side++) {
		innovation[side] = measured[side] - filter->level[side] - filter->walk[side];
		filter->level[side] += level_gain / variance * innovation[side];
		filter->walk[side] += walk_gain / variance * innovation[side];
	}
	filter->level_level -= level_gain * level_gain / variance;
	filter->level_walk -= level_gain * walk_gain / variance;
	filter->walk_walk -= walk_gain * walk_gain / variance;
	for (size_t i = 0; i < filter->sides; i++) {
		for (size_t j = i; j < filter->sides; j++)
			filter->products[i][j] += innovation[i] * innovation[j] / variance;
	}
	/* Few logarithms, and no number beyond what a double holds. */
	filter->determinant *= variance;
	if (filter->determinant > 1e150 || filter->determinant < 1e-150) {
		filter->log_determinant += log(filter->determinant);
		filter->determinant = 1;
	}
}

/* What shrinks by objects that were there from the start is a walk from the end to the start. */
static void filter_run(struct kalman_filter *filter, const struct growth_data *series,
	const struct growth_data_run *run, bool is_backward)
{
	const size_t count = run->end - run->first;
	const double start = series->points[run->first].course;
	const double first = series->points[run->first].value;
	const struct growth_data_point *last = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct growth_data_point *const point =
			&series->points[is_backward ? run->end - 1 - i : run->first + i];
		if (last != NULL)
			predict(filter, fabs(point->hours - last->hours),
				fabs(point->course - last->course));
		last = point;
		double measured[MAX_SIDES] = {
			[TIME] = point->course - start, [VALUE] = point->value - first
		};
		measured[LEVELS + point->phase] = 1;
		update(filter, measured, point->excess);
	}
}

/* Takes out, by Gauss, what the levels explain; the logarithm of what they are divided by. */
static double eliminate_levels(struct kalman_filter *filter)
{
	double logs = 0;

	for (size_t level = filter->sides; level-- > LEVELS;) {
		const double pivot = filter->products[level][level];
		/* A run may lack a phase. */
		if (pivot == 0)
			continue;
		logs += log(pivot);
		for (size_t i = 0; i < level; i++) {
			const double share = filter->products[i][level] / pivot;
			for (size_t j = i; j < level; j++)
				filter->products[i][j] -= share * filter->products[j][level];
		}
	}
	return logs;
}

/*
 * The variance of the average of n points whose neighbours correlate by r, to that of one:
 * sum over j, k of r^|j-k| / n^2.
 */
static double average_variance(double n, double r)
{
	if (r >= 1)
		return 1;
	return (n * (1 - r * r) - 2 * r * (1 - pow(r, n))) / (n * n * (1 - r) * (1 - r));
}

/*
 * What comes and goes at least. A fraction of a sample does everywhere: counts of a few are not
 * known better. And where the supposed rate does not explain what was measured to come (or go),
 * objects that came and stayed for a while did: a few samples in a straight line are no proof of a
 * leak.
 */
static double min_turnover(
	const struct growth_data *series, double supposed_rate, double correlation)
{
	const double min_samples = 0.05, unexplained_share = 0.5;
	const double unexplained = fmax(fabs(series->plain_rate) - fabs(supposed_rate), 0);
	const double came = unexplained_share * unexplained * series->step_hours;

	return fmax(min_samples * series->object_weight, came / (2 * (1 - correlation)));
}

/* The noise of a run that begins (or, shrinking, ends) with its level. */
static struct kalman_filter noise_of(const struct growth_data *series,
	const struct growth_data_run *run, double supposed_rate, const struct line_noise *noise,
	double weight)
{
	const double hours =
		supposed_rate >= 0 ? run->mean_course : run->span_course - run->mean_course;
	const double level =
		fmax(run->mean_value - run->mean_excess - fabs(supposed_rate) * hours, 0);
	const double correlation =
		noise->lifetime_hours > 0 ? exp(-series->step_hours / noise->lifetime_hours) : 0;
	const double turned_over =
		fmax(noise->share * level, min_turnover(series, supposed_rate, correlation));
	const double variance =
		weight * turned_over * average_variance((double)series->block, correlation) +
		series->min_variance;

	return (struct kalman_filter){
		.sides = LEVELS + series->phases,
		.level_variance = variance,
		.lifetime_hours = noise->lifetime_hours,
		.walk_variance = weight * fabs(supposed_rate),
		.excess_weight = weight / (double)series->block,
		.level_level = variance,
		.determinant = 1,
		.last_hours = { -1, -1 },
	};
}

/*
 * The variance of the sum of this run's values, each times its weight in the plain rate. What
 * forgets is summed with what is left of the sums before; each step of the walk moves all that
 * come after it.
 */
static double rate_variance(struct kalman_filter *noise, const struct growth_data *series,
	const struct growth_data_run *run)
{
	const struct growth_data_point *last = &series->points[run->first];
	double variance = 0, remembered = 0, weights = 0;

	for (size_t i = run->first; i < run->end; i++) {
		const struct growth_data_point *const point = &series->points[i];
		const double weight = point->centered_hours / series->square_hours;
		const double hours = point->hours - last->hours;

		remembered *= survival(noise, hours);
		/* All weights of a run add up to nothing. */
		variance +=
			noise->walk_variance * (point->course - last->course) * weights * weights;
		variance += noise->level_variance * weight * (weight + 2 * remembered);
		variance += noise->excess_weight * point->excess * weight * weight;
		remembered += weight;
		weights += weight;
		last = point;
	}
	return variance;
}

struct line_fit line_fit_make(
	const struct growth_data *series, double supposed_rate, const struct line_noise *noise)
{
	double tt = 0, ty = 0, yy = 0, logs = 0, variance = 0, sampling_variance = 0;

	for (size_t i = 0; i < series->run_count; i++) {
		const struct growth_data_run *const run = &series->runs[i];
		struct kalman_filter filter =
			noise_of(series, run, supposed_rate, noise, noise->weight);
		variance += rate_variance(&filter, series, run);
		if (noise->weight != series->weight) {
			struct kalman_filter sampling =
				noise_of(series, run, supposed_rate, noise, series->weight);
			sampling_variance += rate_variance(&sampling, series, run);
		}
		filter_run(&filter, series, run, supposed_rate < 0);
		logs += filter.log_determinant + log(filter.determinant) +
			eliminate_levels(&filter);
		tt += filter.products[TIME][TIME];
		ty += filter.products[TIME][VALUE];
		yy += filter.products[VALUE][VALUE];
	}
	return (struct line_fit){
		.variance = variance,
		.sampling_variance = noise->weight == series->weight ? variance : sampling_variance,
		.residual = fmax(yy - ty * ty / tt, 0),
		.log_likelihood = -0.5 * (logs + log(tt)),
	};
}
