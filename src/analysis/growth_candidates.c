/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_candidates.h"

#include <math.h>

static const double moment_price = 1.5;
/* More for a step that one point is beside: that may be just an odd one. */
static const double end_price = 1;

struct candidate_search {
	const struct growth_data *series;
	const struct basis *basis;
	double square_sum;	      /* that the level leaves */
	double log_prior;	      /* of the noise */
	double log_count;	      /* of points */
	struct shape_candidate *best; /* by shape, those with growth and steps by the growth's */
	double *onset_scores;	      /* by point */
};

static double score_of(const struct candidate_search *search, double left, double price)
{
	/* As in the grid of analysis/growth.c: noise above the model's costs once. */
	const double scale_price = 3.7;
	const double count = (double)(search->series->count - search->series->run_count);
	const double scale = fmax(left / count, 1);

	return search->log_prior - price * search->log_count - (scale > 1 ? scale_price : 0) -
	       (search->basis->log_determinant + count * log(scale) + left / scale) / 2;
}

/* Half of the square sum that a moment has to explain, to be worth its price. */
static double min_gain(const struct candidate_search *search, double left)
{
	return fmax(left / (double)search->basis->count, 1) * moment_price * search->log_count;
}

/* Whether steps against the growth take back half of it, or more, in the run where it begins. */
static bool is_reverted(
	const struct candidate_search *search, const struct shape_candidate *candidate)
{
	const struct growth_data_point *const points = search->series->points;
	const size_t first = candidate->shape == SHAPE_HINGE ? candidate->onset
							     : growth_data_run_begin(search->series,
								       search->series->count - 1);
	const size_t last = growth_data_run_end(search->series, first) - 1;
	const double grown = candidate->slope * sqrt(search->series->plain_variance) *
			     (points[last].hours - points[first].hours) /
			     search->series->span_hours;

	return (points[last].value - points[first].value) / grown < 0.5;
}

static void keep_if_best(
	const struct candidate_search *search, const struct shape_candidate *candidate)
{
	const bool grows = candidate->shape == SHAPE_LINE || candidate->shape == SHAPE_HINGE;
	const bool has_drops =
		grows && (candidate->slope > 0 ? candidate->steps_down : candidate->steps_up);
	const int shape = has_drops ? SHAPE_SAW : candidate->shape;

	/* Small ones bend a line only, as when growth began between two points. */
	if (candidate->score <= search->best[shape].score ||
		(has_drops && !is_reverted(search, candidate)))
		return;
	search->best[shape] = *candidate;
}

static bool is_clear_of_steps(const struct shape_candidate *candidate, size_t at)
{
	for (size_t i = 0; i < candidate->step_count; i++) {
		const size_t there = candidate->steps[i];
		if (there > at ? there - at < 2 : at - there < 2)
			return false;
	}
	return true;
}

static double steps_price(
	const struct candidate_search *search, const struct shape_candidate *candidate)
{
	double price = 0;

	for (size_t i = 0; i < candidate->step_count; i++)
		price +=
			moment_price +
			(growth_data_may_bend(search->series, candidate->steps[i]) ? 0 : end_price);
	return price;
}

/* With these steps, which the basis is without: level, a line or a hinge beside them. */
static void try_growth(const struct candidate_search *search, const struct basis *basis,
	const struct shape_candidate *steps)
{
	const double left = column_product(&basis->values, &basis->values, 0, basis->count);
	const double price = steps_price(search, steps);
	struct shape_candidate candidate = *steps;

	candidate.shape = steps->step_count == 0 ? SHAPE_LEVEL : SHAPE_STEPS;
	candidate.score = score_of(search, left, price);
	keep_if_best(search, &candidate);
	for (size_t at = 0; at < basis->count; at++) {
		if (!growth_data_may_bend(search->series, at))
			continue;
		candidate.shape = SHAPE_HINGE;
		candidate.onset = at;
		candidate.score = score_of(search,
			left - basis_explained(basis, &basis->hinges[at], &candidate.slope),
			price + moment_price);
		if (candidate.slope > 0 ? !candidate.steps_down : !candidate.steps_up)
			search->onset_scores[at] = fmax(search->onset_scores[at], candidate.score);
		keep_if_best(search, &candidate);
		/* A step to the line that follows: they share the moment. */
		if (steps->step_count != 0 || !is_clear_of_steps(steps, at))
			continue;
		struct basis_column hinge = basis->hinges[at];
		column_take_out(&hinge, &basis->steps[at],
			column_product(&basis->steps[at], &basis->steps[at], 0, basis->count), 0,
			basis->count);
		struct shape_candidate both = candidate;
		double step;
		const double by_step = basis_explained(basis, &basis->steps[at], &step);
		both.score = score_of(search,
			left - by_step - basis_explained(basis, &hinge, &both.slope),
			price + moment_price + 0.5);
		both.steps_up = step > 0;
		both.steps_down = step < 0;
		both.steps[both.step_count++] = at;
		keep_if_best(search, &both);
	}
}

static void try_line(const struct candidate_search *search)
{
	const double left =
		search->square_sum - basis_explained(search->basis, &search->basis->line, NULL);
	const struct shape_candidate candidate = { .shape = SHAPE_LINE,
		.score = score_of(search, left, 0.5) };

	keep_if_best(search, &candidate);
}

/*
 * Adds to the candidate the step that explains most of what the basis is left with, and takes it
 * out; false when none is worth it.
 */
static bool take_step(const struct candidate_search *search, struct basis *basis,
	struct shape_candidate *candidate)
{
	const double left = column_product(&basis->values, &basis->values, 0, basis->count);
	/* A step that does not pay half of its price does not pave the way for others. */
	double max = min_gain(search, left), step = 0;
	size_t at = basis->count;

	if (candidate->step_count == GROWTH_MAX_STEPS)
		return false;
	for (size_t i = 0; i < basis->count; i++) {
		double height;
		if (!growth_data_may_step(search->series, i) || !is_clear_of_steps(candidate, i))
			continue;
		const double gain = basis_explained(basis, &basis->steps[i], &height);
		if (gain > max) {
			max = gain;
			step = height;
			at = i;
		}
	}
	if (at == basis->count)
		return false;
	candidate->steps_up |= step > 0;
	candidate->steps_down |= step < 0;
	candidate->steps[candidate->step_count++] = at;
	basis_remove(basis, search->series, basis->steps[at]);
	return true;
}

/* Steps between levels, and growth beside them. Whether there was any. */
static bool try_steps(const struct candidate_search *search)
{
	struct basis basis = *search->basis;
	struct shape_candidate candidate = { 0 };

	do
		try_growth(search, &basis, &candidate);
	while (take_step(search, &basis, &candidate));
	return candidate.step_count > 0;
}

/* Steps that are seen when a line is taken out first. */
static void try_steps_beside_line(const struct candidate_search *search)
{
	struct basis basis = *search->basis, stepped = *search->basis;
	struct shape_candidate candidate = { .shape = SHAPE_LINE };

	basis_remove(&basis, search->series, search->basis->line);
	while (take_step(search, &basis, &candidate)) {
		const double left = column_product(&basis.values, &basis.values, 0, basis.count);
		const size_t last = candidate.steps[candidate.step_count - 1];
		basis_remove(&stepped, search->series, stepped.steps[last]);
		(void)basis_explained(&stepped, &stepped.line, &candidate.slope);
		candidate.score = score_of(search, left, 0.5 + steps_price(search, &candidate));
		keep_if_best(search, &candidate);
	}
}

/* The same for the hinge that fits best, which may fit better elsewhere with the steps. */
static void try_steps_beside_hinge(const struct candidate_search *search)
{
	struct basis basis = *search->basis, stepped = *search->basis;
	struct shape_candidate candidate = { 0 };
	double max = min_gain(search, search->square_sum);
	size_t at = basis.count;

	for (size_t i = 0; i < basis.count; i++) {
		if (!growth_data_may_bend(search->series, i))
			continue;
		const double gain = basis_explained(&basis, &basis.hinges[i], NULL);
		if (gain > max) {
			max = gain;
			at = i;
		}
	}
	if (at == basis.count)
		return;
	basis_remove(&basis, search->series, search->basis->hinges[at]);
	while (take_step(search, &basis, &candidate)) {
		const size_t last = candidate.steps[candidate.step_count - 1];
		basis_remove(&stepped, search->series, stepped.steps[last]);
		try_growth(search, &stepped, &candidate);
	}
}

/* Growth is over when the level after it has lasted as long as half of it, at least. */
static bool is_over(const struct growth_data *series, size_t first, size_t end)
{
	const double rise = series->points[end].hours - series->points[first].hours;
	const double level = series->points[growth_data_run_end(series, end) - 1].hours -
			     series->points[end].hours;

	return level >= rise / 2;
}

/* A line between two levels: the hinge of its beginning less that of its end. */
static void try_rises(const struct candidate_search *search)
{
	const struct basis *const basis = search->basis;
	const struct growth_data *const series = search->series;
	double squares[GROWTH_POINTS], gains[GROWTH_POINTS];

	for (size_t i = 0; i < basis->count; i++) {
		if (!growth_data_may_bend(series, i) && i != 0)
			continue;
		const struct basis_column *const hinge = i == 0 ? &basis->line : &basis->hinges[i];
		squares[i] = column_product(hinge, hinge, 0, basis->count);
		gains[i] = column_product(hinge, &basis->values, 0, basis->count);
	}
	for (size_t end = 1; end < basis->count; end++) {
		if (!growth_data_may_bend(series, end))
			continue;
		for (size_t first = 0; first + 1 < end; first++) {
			if ((first != 0 && !growth_data_may_bend(series, first)) ||
				series->points[first].run != series->points[end].run ||
				!is_over(series, first, end))
				continue;
			const struct basis_column *const from =
				first == 0 ? &basis->line : &basis->hinges[first];
			const double both =
				column_product(from, &basis->hinges[end], 0, basis->count);
			const double square = squares[first] + squares[end] - 2 * both;
			const double gain = gains[first] - gains[end];
			if (square <= 1e-9 * squares[first])
				continue;
			const struct shape_candidate candidate = {
				.shape = SHAPE_RISE,
				.onset = first,
				.end = end,
				.slope = gain / square,
				.score = score_of(search, search->square_sum - gain * gain / square,
					first == 0 ? moment_price : moment_price + 1),
			};
			keep_if_best(search, &candidate);
		}
	}
}

static void try_waves(const struct candidate_search *search)
{
	struct basis basis = *search->basis;
	const double by_cosine = basis_explained(&basis, &basis.cosine, NULL);
	column_take_out(&basis.sine, &basis.cosine,
		column_product(&basis.cosine, &basis.cosine, 0, basis.count), 0, basis.count);
	const double by_sine = basis_explained(&basis, &basis.sine, NULL);
	struct shape_candidate candidate = { .shape = SHAPE_WAVE };
	candidate.score = score_of(search, search->square_sum - by_cosine - by_sine, 1.5);
	keep_if_best(search, &candidate);
	column_take_out(&basis.line, &basis.cosine,
		column_product(&basis.cosine, &basis.cosine, 0, basis.count), 0, basis.count);
	column_take_out(&basis.line, &basis.sine,
		column_product(&basis.sine, &basis.sine, 0, basis.count), 0, basis.count);
	candidate.score = score_of(search,
		search->square_sum - by_cosine - by_sine -
			basis_explained(&basis, &basis.line, NULL),
		2);
	keep_if_best(search, &candidate);
}

/*
 * The noise that shapes are tried with: lifetimes in spans of the series, and shares. Without one
 * that moves as slowly as the series does, its slow moves look like steps.
 */
static const struct {
	double spans, share, prior;
	bool walks;   /* what grows is random, too */
	bool is_pool; /* keeps the number of its objects */
} noises[] = {
	{ .spans = 0, .share = 1, .prior = 1 },
	{ .spans = 0, .share = 0.015625, .prior = 0.3 },
	{ .spans = 0, .share = 0.015625, .prior = 0.3, .walks = true },
	{ .spans = 0.1, .share = 1, .prior = 1 },
	{ .spans = 0.4, .share = 1, .prior = 1 },
	{ .spans = 1.4, .share = 1, .prior = 1 },
	{ .spans = 4.5, .share = 1, .prior = 1 },
	{ .spans = 4.5, .share = 0.125, .prior = 0.5 },
	{ .spans = 0, .share = 1, .prior = 1, .is_pool = true },
	{ .spans = 0.1, .share = 1, .prior = 1, .is_pool = true },
	{ .spans = 0.4, .share = 1, .prior = 1, .is_pool = true },
	{ .spans = 1.4, .share = 1, .prior = 1, .is_pool = true },
};

void candidates_find(const struct growth_data *series, double rise, double period,
	struct shape_candidate best[SHAPES], double onset_scores[GROWTH_POINTS])
{
	const double walk = series->object_weight * fabs(rise) / series->span_hours;

	for (size_t i = 0; i < SHAPES; i++)
		best[i].score = -INFINITY;
	for (size_t i = 0; i < GROWTH_POINTS; i++)
		onset_scores[i] = -INFINITY;
	for (size_t i = 0; i < sizeof noises / sizeof noises[0]; i++) {
		const struct line_noise noise = { noises[i].share,
			noises[i].spans * series->span_hours,
			noises[i].is_pool ? series->weight : series->object_weight };
		struct basis basis;
		if (noises[i].is_pool && !series->may_be_pool)
			continue;
		basis_make(series, &noise, noises[i].walks ? walk : 0, period, &basis);
		const struct candidate_search search = {
			.series = series,
			.basis = &basis,
			.square_sum = column_product(&basis.values, &basis.values, 0, basis.count),
			.log_prior = log(noises[i].prior),
			.log_count = log((double)series->count),
			.best = best,
			.onset_scores = onset_scores,
		};
		const bool has_steps = try_steps(&search);
		const bool has_slope = basis_explained(&basis, &basis.line, NULL) >
				       min_gain(&search, search.square_sum);
		try_line(&search);
		if (has_slope)
			try_steps_beside_line(&search);
		if (has_slope || has_steps) {
			try_steps_beside_hinge(&search);
			try_rises(&search);
		}
		if (period > 0)
			try_waves(&search);
	}
}
