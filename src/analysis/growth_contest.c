/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_contest.h"

#include <math.h>

static const double moment_price = 1.5;
struct contest {
	const struct series *series;
	const struct basis *basis;
	double square_sum;	/* that the level leaves */
	double log_prior;	/* of the noise */
	double log_count;	/* of points */
	struct candidate *best; /* by shape, those with growth and steps by the growth's */
	double *onset_scores;	/* by point */
};

static double score_of(const struct contest *contest, double left, double price)
{
	/* As in the grid of analysis/growth.c: noise above the model's costs once. */
	const double scale_price = 3.7;
	const double count = (double)(contest->series->count - contest->series->run_count);
	const double scale = fmax(left / count, 1);

	return contest->log_prior - price * contest->log_count - (scale > 1 ? scale_price : 0) -
	       (contest->basis->log_determinant + count * log(scale) + left / scale) / 2;
}

/* Half of the square sum that a moment has to explain, to be worth its price. */
static double worthwhile_gain(const struct contest *contest, double left)
{
	return fmax(left / (double)contest->basis->count, 1) * moment_price * contest->log_count;
}

static void enter(const struct contest *contest, const struct candidate *candidate)
{
	if (candidate->score > contest->best[candidate->shape].score)
		contest->best[candidate->shape] = *candidate;
}

static bool is_apart(const struct candidate *candidate, size_t at)
{
	for (size_t i = 0; i < candidate->step_count; i++) {
		const size_t there = candidate->steps[i];
		if (there > at ? there - at < 2 : at - there < 2)
			return false;
	}
	return true;
}

/* With these steps, which the basis is without: level, a line or a hinge beside them. */
static void enter_growth(
	const struct contest *contest, const struct basis *basis, const struct candidate *steps)
{
	const double left = column_product(&basis->values, &basis->values, 0, basis->count);
	const double price = moment_price * (double)steps->step_count;
	struct candidate candidate = *steps;

	candidate.shape = steps->step_count == 0 ? SHAPE_LEVEL : SHAPE_STEPS;
	candidate.score = score_of(contest, left, price);
	enter(contest, &candidate);
	for (size_t at = 0; at < basis->count; at++) {
		if (!series_may_step(contest->series, at))
			continue;
		candidate.shape = SHAPE_HINGE;
		candidate.onset = at;
		candidate.score = score_of(contest,
			left - basis_explained(basis, &basis->hinges[at], &candidate.slope),
			price + moment_price);
		candidate.has_drops =
			candidate.slope > 0 ? candidate.steps_down : candidate.steps_up;
		enter(contest, &candidate);
		contest->onset_scores[at] = fmax(contest->onset_scores[at], candidate.score);
		/* A step to the line that follows: they share the moment. */
		if (steps->step_count != 0 || !is_apart(steps, at))
			continue;
		struct column hinge = basis->hinges[at];
		column_take_out(&hinge, &basis->steps[at],
			column_product(&basis->steps[at], &basis->steps[at], 0, basis->count), 0,
			basis->count);
		struct candidate both = candidate;
		double step;
		const double by_step = basis_explained(basis, &basis->steps[at], &step);
		both.score = score_of(contest,
			left - by_step - basis_explained(basis, &hinge, &both.slope),
			price + moment_price + 0.5);
		both.has_drops = step * both.slope < 0;
		both.steps[both.step_count++] = at;
		enter(contest, &both);
	}
}

static void enter_line(const struct contest *contest)
{
	const double left =
		contest->square_sum - basis_explained(contest->basis, &contest->basis->line, NULL);
	const struct candidate candidate = { .shape = SHAPE_LINE,
		.score = score_of(contest, left, 0.5) };

	enter(contest, &candidate);
}

/* Takes steps, one after the other, each where it explains most. Whether there was any. */
static bool enter_steps(const struct contest *contest, bool beside_line)
{
	struct basis basis = *contest->basis;
	struct candidate candidate = { .shape = SHAPE_LINE };

	if (beside_line)
		basis_remove(&basis, contest->series, contest->basis->line);
	for (;;) {
		const double left = column_product(&basis.values, &basis.values, 0, basis.count);
		if (beside_line) {
			candidate.score = score_of(
				contest, left, 0.5 + moment_price * (double)candidate.step_count);
			enter(contest, &candidate);
		} else {
			enter_growth(contest, &basis, &candidate);
		}
		/* A step that does not pay half of its price does not pave the way for others. */
		double most = worthwhile_gain(contest, left), step = 0;
		size_t at = basis.count;
		for (size_t i = 0; i < basis.count; i++) {
			double height;
			if (!series_may_step(contest->series, i) || !is_apart(&candidate, i))
				continue;
			const double gain = basis_explained(&basis, &basis.steps[i], &height);
			if (gain > most) {
				most = gain;
				step = height;
				at = i;
			}
		}
		if (at == basis.count || candidate.step_count == GROWTH_MAX_STEPS)
			break;
		candidate.steps_up |= step > 0;
		candidate.steps_down |= step < 0;
		candidate.has_drops = candidate.steps_down;
		candidate.steps[candidate.step_count++] = at;
		basis_remove(&basis, contest->series, basis.steps[at]);
	}
	return candidate.step_count > 0;
}

/* Growth is over when the level after it has lasted as long as half of it, at least. */
static bool is_over(const struct series *series, size_t first, size_t end)
{
	const double rise = series->points[end].hours - series->points[first].hours;
	const double level =
		series->points[series_run_end(series, end) - 1].hours - series->points[end].hours;

	return level >= rise / 2;
}

/* A line between two levels: the hinge of its beginning less that of its end. */
static void enter_rises(const struct contest *contest)
{
	const struct basis *const basis = contest->basis;
	const struct series *const series = contest->series;
	double squares[GROWTH_POINTS], gains[GROWTH_POINTS];

	for (size_t i = 0; i < basis->count; i++) {
		if (!series_may_step(series, i) && i != 0)
			continue;
		const struct column *const hinge = i == 0 ? &basis->line : &basis->hinges[i];
		squares[i] = column_product(hinge, hinge, 0, basis->count);
		gains[i] = column_product(hinge, &basis->values, 0, basis->count);
	}
	for (size_t end = 1; end < basis->count; end++) {
		if (!series_may_step(series, end))
			continue;
		for (size_t first = 0; first + 1 < end; first++) {
			if ((first != 0 && !series_may_step(series, first)) ||
				series->points[first].run != series->points[end].run ||
				!is_over(series, first, end))
				continue;
			const struct column *const from =
				first == 0 ? &basis->line : &basis->hinges[first];
			const double both =
				column_product(from, &basis->hinges[end], 0, basis->count);
			const double square = squares[first] + squares[end] - 2 * both;
			const double gain = gains[first] - gains[end];
			if (square <= 1e-9 * squares[first])
				continue;
			const struct candidate candidate = {
				.shape = SHAPE_RISE,
				.onset = first,
				.end = end,
				.slope = gain / square,
				.score = score_of(contest,
					contest->square_sum - gain * gain / square,
					first == 0 ? moment_price : moment_price + 1),
			};
			enter(contest, &candidate);
		}
	}
}

static void enter_waves(const struct contest *contest)
{
	struct basis basis = *contest->basis;
	const double by_cosine = basis_explained(&basis, &basis.cosine, NULL);
	column_take_out(&basis.sine, &basis.cosine,
		column_product(&basis.cosine, &basis.cosine, 0, basis.count), 0, basis.count);
	const double by_sine = basis_explained(&basis, &basis.sine, NULL);
	struct candidate candidate = { .shape = SHAPE_WAVE };
	candidate.score = score_of(contest, contest->square_sum - by_cosine - by_sine, 1.5);
	enter(contest, &candidate);
	column_take_out(&basis.line, &basis.cosine,
		column_product(&basis.cosine, &basis.cosine, 0, basis.count), 0, basis.count);
	column_take_out(&basis.line, &basis.sine,
		column_product(&basis.sine, &basis.sine, 0, basis.count), 0, basis.count);
	candidate.score = score_of(contest,
		contest->square_sum - by_cosine - by_sine -
			basis_explained(&basis, &basis.line, NULL),
		2);
	enter(contest, &candidate);
}

/* The noise that shapes are tried with: lifetimes in spans of the series, and shares. */
static const struct {
	double spans, share, prior;
	bool walks; /* what grows is random, too */
} noises[] = {
	{ 0, 1, 1, false },
	{ 0, 0.015625, 0.3, false },
	{ 0, 0.015625, 0.3, true },
	{ 0.1, 1, 1, false },
	{ 0.4, 1, 1, false },
	{ 4.5, 0.125, 0.5, false },
};

void contest_hold(const struct series *series, double rise, double period,
	struct candidate best[SHAPES], double onset_scores[GROWTH_POINTS])
{
	const double walk = series->object_weight * fabs(rise) / series->span_hours;

	for (size_t i = 0; i < SHAPES; i++)
		best[i].score = -INFINITY;
	for (size_t i = 0; i < GROWTH_POINTS; i++)
		onset_scores[i] = -INFINITY;
	for (size_t i = 0; i < sizeof noises / sizeof noises[0]; i++) {
		const struct line_noise noise = { noises[i].share,
			noises[i].spans * series->span_hours, series->object_weight };
		struct basis basis;
		basis_make(series, &noise, noises[i].walks ? walk : 0, period, &basis);
		const struct contest contest = {
			.series = series,
			.basis = &basis,
			.square_sum = column_product(&basis.values, &basis.values, 0, basis.count),
			.log_prior = log(noises[i].prior),
			.log_count = log((double)series->count),
			.best = best,
			.onset_scores = onset_scores,
		};
		const bool has_steps = enter_steps(&contest, false);
		const bool has_slope = basis_explained(&basis, &basis.line, NULL) >
				       worthwhile_gain(&contest, contest.square_sum);
		enter_line(&contest);
		if (has_slope)
			enter_steps(&contest, true);
		if (has_slope || has_steps)
			enter_rises(&contest);
		if (period > 0)
			enter_waves(&contest);
	}
}
