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

/* The filter for a run: what is kept of the state from point to point, and what is learnt. */
struct whitener {
	double kept[GROWTH_POINTS], level_gains[GROWTH_POINTS], walk_gains[GROWTH_POINTS];
	double scales[GROWTH_POINTS]; /* to a variance of 1 of what is new */
	double log_determinant;
};

/* One object more or less is no shape. */
static const double min_objects = 0.5;

/* See analysis/growth_line.h for the two states; `walk_variance` an hour. */
static struct whitener make_whitener(
	const struct growth_data *series, const struct line_noise *noise, double walk_variance)
{
	struct whitener whitener = { 0 };

	for (size_t r = 0; r < series->run_count; r++) {
		const struct growth_data_run *const run = &series->runs[r];
		const double level = fmax(run->mean_value - run->mean_excess, 0);
		const double variance =
			noise->weight *
				fmax(noise->share * level, min_objects * series->object_weight) /
				(double)series->block +
			series->min_variance;
		double level_level = variance, level_walk = 0, walk_walk = 0;
		for (size_t i = run->first; i < run->end; i++) {
			const struct growth_data_point *const point = &series->points[i];
			if (i != run->first) {
				const double hours = point->hours - point[-1].hours;
				const double kept = noise->lifetime_hours > 0
							    ? exp(-hours / noise->lifetime_hours)
							    : 0;
				whitener.kept[i] = kept;
				level_level =
					kept * kept * level_level + (1 - kept * kept) * variance;
				level_walk *= kept;
				walk_walk += hours * walk_variance;
			}
			const double level_gain = level_level + level_walk;
			const double walk_gain = level_walk + walk_walk;
			const double sum = level_gain + walk_gain;
			whitener.level_gains[i] = level_gain / sum;
			whitener.walk_gains[i] = walk_gain / sum;
			whitener.scales[i] = 1 / sqrt(sum);
			whitener.log_determinant += log(sum);
			level_level -= level_gain * level_gain / sum;
			level_walk -= level_gain * walk_gain / sum;
			walk_walk -= walk_gain * walk_gain / sum;
		}
	}
	return whitener;
}

/* The column is 0 before this point. */
static void whiten(const struct growth_data *series, const struct whitener *whitener, size_t from,
	struct basis_column *column)
{
	for (size_t r = 0; r < series->run_count; r++) {
		const struct growth_data_run *const run = &series->runs[r];
		double level = 0, walk = 0;
		for (size_t i = run->first > from ? run->first : from; i < run->end; i++) {
			level *= whitener->kept[i];
			const double innovation = column->at[i] - level - walk;
			level += whitener->level_gains[i] * innovation;
			walk += whitener->walk_gains[i] * innovation;
			column->at[i] = innovation * whitener->scales[i];
		}
	}
}

double column_product(
	const struct basis_column *x, const struct basis_column *y, size_t first, size_t end)
{
	double even = 0, odd = 0;
	size_t i = first;

	/* Two sums, as one would wait for itself. */
	for (; i + 1 < end; i += 2) {
		even += x->at[i] * y->at[i];
		odd += x->at[i + 1] * y->at[i + 1];
	}
	return even + odd + (i < end ? x->at[i] * y->at[i] : 0);
}

void column_take_out(struct basis_column *x, const struct basis_column *y, double square,
	size_t first, size_t end)
{
	const double share = square > 0 ? column_product(x, y, first, end) / square : 0;

	for (size_t i = first; i < end; i++)
		x->at[i] -= share * y->at[i];
}

/* The level of each run, whitened. */
struct levels {
	struct basis_column ones;
	double squares[GROWTH_POINTS / 2]; /* by run */
};

static struct levels whiten_levels(
	const struct growth_data *series, const struct whitener *whitener)
{
	struct levels levels;

	for (size_t i = 0; i < series->count; i++)
		levels.ones.at[i] = 1;
	whiten(series, whitener, 0, &levels.ones);
	for (size_t r = 0; r < series->run_count; r++)
		levels.squares[r] = column_product(
			&levels.ones, &levels.ones, series->runs[r].first, series->runs[r].end);
	return levels;
}

static void take_out_levels(const struct growth_data *series, const struct whitener *whitener,
	const struct levels *levels, size_t from, struct basis_column *column)
{
	whiten(series, whitener, from, column);
	for (size_t r = 0; r < series->run_count; r++)
		column_take_out(column, &levels->ones, levels->squares[r], series->runs[r].first,
			series->runs[r].end);
}

void basis_make(const struct growth_data *series, const struct line_noise *noise,
	double walk_variance, double period, struct basis *basis)
{
	const struct whitener whitener = make_whitener(series, noise, walk_variance);

	const struct levels levels = whiten_levels(series, &whitener);
	/* Dimensionless, so that columns can be distinguished from rounding errors. */
	const double unit = sqrt(series->plain_variance);

	basis->count = series->count;
	basis->log_determinant = whitener.log_determinant;
	for (size_t i = 0; i < series->count; i++) {
		const struct growth_data_point *const point = &series->points[i];
		const double angle = period > 0 ? 2 * M_PI * point->hours / period : 0;
		basis->values.at[i] = point->value - series->points[0].value;
		basis->line.at[i] =
			unit * (point->hours - series->points[0].hours) / series->span_hours;
		basis->cosine.at[i] = unit * cos(angle);
		basis->sine.at[i] = unit * sin(angle);
	}
	take_out_levels(series, &whitener, &levels, 0, &basis->values);
	take_out_levels(series, &whitener, &levels, 0, &basis->line);
	if (period > 0) {
		take_out_levels(series, &whitener, &levels, 0, &basis->cosine);
		take_out_levels(series, &whitener, &levels, 0, &basis->sine);
	}
	for (size_t at = 0; at < series->count; at++) {
		if (!growth_data_may_step(series, at))
			continue;
		for (size_t i = 0; i < series->count; i++) {
			const double hours =
				fmax(series->points[i].hours - series->points[at].hours, 0);
			const bool is_after =
				i > at && series->points[i].run == series->points[at].run;
			basis->steps[at].at[i] = is_after ? unit : 0;
			basis->hinges[at].at[i] = unit * hours / series->span_hours;
		}
		take_out_levels(series, &whitener, &levels, at, &basis->steps[at]);
		take_out_levels(series, &whitener, &levels, at, &basis->hinges[at]);
	}
}

double basis_explained(
	const struct basis *basis, const struct basis_column *column, double *coefficient)
{
	const double square = column_product(column, column, 0, basis->count);
	const double both = column_product(column, &basis->values, 0, basis->count);

	if (coefficient != NULL)
		*coefficient = square > 1e-12 ? both / square : 0;
	return square > 1e-12 ? both * both / square : 0;
}

void basis_remove(struct basis *basis, const struct growth_data *series, struct basis_column column)
{
	const double square = column_product(&column, &column, 0, basis->count);

	column_take_out(&basis->values, &column, square, 0, basis->count);
	column_take_out(&basis->line, &column, square, 0, basis->count);
	for (size_t i = 0; i < basis->count; i++) {
		if (!growth_data_may_step(series, i))
			continue;
		column_take_out(&basis->steps[i], &column, square, 0, basis->count);
		column_take_out(&basis->hinges[i], &column, square, 0, basis->count);
	}
}
