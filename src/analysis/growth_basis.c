/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_basis.h"

#include <math.h>

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
