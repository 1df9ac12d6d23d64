/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_candidates.h"

#include <math.h>

static const double moment_price = 1.5;
/* More for a step that one point is beside: that may be just an odd one. */
static const double end_price = 1;
/* More for two steps in adjacent intervals: noise looks like them more often. */
static const double pair_price = 2;

/* In the unit of the basis. */
static double min_step(const struct growth_data *series)
{
	return growth_data_min_step(series) / sqrt(series->plain_variance);
}

struct candidate_search {
	const struct growth_data *series;
	const struct basis *basis;
	double square_sum;	      /* that the level leaves */
	double log_prior;	      /* of the noise */
	double log_count;	      /* of points */
	struct shape_candidate *best; /* by shape, those with growth and steps by the growth's */
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

static bool has_step(const struct shape_candidate *candidate, size_t at)
{
	for (size_t i = 0; i < candidate->step_count; i++) {
		if (candidate->steps[i] == at)
			return true;
	}
	return false;
}

/* Whether no step is there, or in an adjacent interval. */
static bool is_clear_of_steps(const struct shape_candidate *candidate, size_t at)
{
	return !has_step(candidate, at) && !has_step(candidate, at + 1) &&
	       (at == 0 || !has_step(candidate, at - 1));
}

/*
 * Whether a step there and one of the candidate's are in adjacent intervals, in the same direction,
 * and a level follows both. A third one beside them would be growth.
 */
static bool makes_pair(const struct growth_data *series, const struct shape_candidate *candidate,
	size_t at, bool is_up)
{
	for (size_t i = 0; i < candidate->step_count; i++) {
		const size_t there = candidate->steps[i];
		const size_t first = there < at ? there : at;
		if (there != at + 1 && at != there + 1)
			continue;
		return candidate->is_up[i] == is_up && growth_data_may_bend(series, first + 1) &&
		       !has_step(candidate, first + 2) &&
		       (first == 0 || !has_step(candidate, first - 1)) && !has_step(candidate, at);
	}
	return false;
}

static double steps_price(
	const struct candidate_search *search, const struct shape_candidate *candidate)
{
	double price = 0;

	for (size_t i = 0; i < candidate->step_count; i++)
		price += moment_price +
			 (growth_data_may_bend(search->series, candidate->steps[i]) ? 0
										    : end_price) +
			 (has_step(candidate, candidate->steps[i] + 1) ? pair_price : 0);
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
	if (!steps->has_small_step)
		keep_if_best(search, &candidate);
	for (size_t at = 0; at < basis->count; at++) {
		if (!growth_data_may_bend(search->series, at))
			continue;
		candidate.shape = SHAPE_HINGE;
		candidate.onset = at;
		candidate.score = score_of(search,
			left - basis_explained(basis, &basis->hinges[at], &candidate.slope),
			price + moment_price);
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
static bool take_step(const struct candidate_search *search, struct basis *basis, bool may_pair,
	struct shape_candidate *candidate)
{
	const double left = column_product(&basis->values, &basis->values, 0, basis->count);
	/* A step that does not pay half of its price does not pave the way for others. */
	double max = min_gain(search, left), step = 0;
	size_t at = basis->count;
	const double min_height = min_step(search->series);

	if (candidate->step_count == GROWTH_MAX_STEPS)
		return false;
	for (size_t i = 0; i < basis->count; i++) {
		double height;
		if (!growth_data_may_step(search->series, i))
			continue;
		const double gain = basis_explained(basis, &basis->steps[i], &height);
		if (gain > max && fabs(height) >= min_height &&
			(is_clear_of_steps(candidate, i) ||
				(may_pair &&
					makes_pair(search->series, candidate, i, height > 0)))) {
			max = gain;
			step = height;
			at = i;
		}
	}
	if (at == basis->count)
		return false;
	candidate->steps_up |= step > 0;
	candidate->steps_down |= step < 0;
	candidate->is_up[candidate->step_count] = step > 0;
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
	while (take_step(search, &basis, false, &candidate));
	return candidate.step_count > 0;
}

/* Steps without growth beside them, of which some may be in adjacent intervals. */
static void try_adjacent_steps(const struct candidate_search *search)
{
	struct basis basis = *search->basis;
	struct shape_candidate candidate = { .shape = SHAPE_STEPS };

	while (take_step(search, &basis, true, &candidate)) {
		const double left = column_product(&basis.values, &basis.values, 0, basis.count);
		candidate.score = score_of(search, left, steps_price(search, &candidate));
		keep_if_best(search, &candidate);
	}
}

/* Steps that are seen when a line is taken out first. */
static void try_steps_beside_line(const struct candidate_search *search)
{
	struct basis basis = *search->basis, stepped = *search->basis;
	struct shape_candidate candidate = { .shape = SHAPE_LINE };

	basis_remove(&basis, search->series, search->basis->line);
	while (take_step(search, &basis, false, &candidate)) {
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
	while (take_step(search, &basis, false, &candidate)) {
		const size_t last = candidate.steps[candidate.step_count - 1];
		double height;
		(void)basis_explained(&stepped, &stepped.steps[last], &height);
		candidate.has_small_step |= fabs(height) < min_step(search->series);
		basis_remove(&stepped, search->series, stepped.steps[last]);
		try_growth(search, &stepped, &candidate);
	}
}

/* Growth has ended when the level after it has lasted at least half as long. */
static bool is_over(const struct growth_data *series, size_t first, size_t end)
{
	const double rise = series->points[end].hours - series->points[first].hours;
	const double level = series->points[growth_data_run_end(series, end) - 1].hours -
			     series->points[end].hours;

	return level >= rise / 2;
}

/* Growth that begins at a point; from the first one on it is a line. */
static const struct basis_column *growth_from(const struct basis *basis, size_t onset)
{
	return onset == 0 ? &basis->line : &basis->hinges[onset];
}

static bool may_begin(const struct growth_data *series, size_t at)
{
	return at == 0 || growth_data_may_bend(series, at);
}

/* Growth from each point on, by the basis: its square, and its product with the values. */
struct hinge_products {
	double squares[GROWTH_POINTS], gains[GROWTH_POINTS];
};

static void multiply_hinges(const struct basis *basis, const struct growth_data *series,
	struct hinge_products *products)
{
	for (size_t i = 0; i < basis->count; i++) {
		if (!may_begin(series, i))
			continue;
		const struct basis_column *const hinge = growth_from(basis, i);
		products->squares[i] = column_product(hinge, hinge, 0, basis->count);
		products->gains[i] = column_product(hinge, &basis->values, 0, basis->count);
	}
}

/*
 * Growth between two points: the hinge of its beginning less that of its end. `left` is the square
 * sum without it. False when none is visible.
 */
static bool rise_between(const struct candidate_search *search,
	const struct hinge_products *products, double left, size_t first, size_t end,
	struct shape_candidate *ret)
{
	const struct basis *const basis = search->basis;
	const double both =
		column_product(growth_from(basis, first), &basis->hinges[end], 0, basis->count);
	const double square = products->squares[first] + products->squares[end] - 2 * both;
	const double gain = products->gains[first] - products->gains[end];

	if (square <= 1e-9 * products->squares[first])
		return false;
	*ret = (struct shape_candidate){
		.shape = SHAPE_RISE,
		.onset = first,
		.end = end,
		.slope = gain / square,
		.score = score_of(search, left - gain * gain / square,
			first == 0 ? moment_price : moment_price + 1),
	};
	return true;
}

static void try_rises(const struct candidate_search *search)
{
	const struct growth_data *const series = search->series;
	struct hinge_products products;
	struct shape_candidate candidate;

	multiply_hinges(search->basis, series, &products);
	for (size_t end = 1; end < series->count; end++) {
		if (!growth_data_may_bend(series, end))
			continue;
		for (size_t first = 0; first + 1 < end; first++) {
			if (!may_begin(series, first) ||
				series->points[first].run != series->points[end].run ||
				!rise_between(search, &products, search->square_sum, first, end,
					&candidate))
				continue;
			candidate.shape = is_over(series, first, end) ? SHAPE_RISE : SHAPE_ENDED;
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

/* Whether the noise of that number is one of the series; makes what shapes are searched with. */
static bool search_make(const struct growth_data *series, size_t at, double rise, double period,
	struct basis *basis, struct candidate_search *search)
{
	const double walk = series->object_weight * fabs(rise) / series->span_hours;
	const struct line_noise noise = { noises[at].share, noises[at].spans * series->span_hours,
		noises[at].is_pool ? series->weight : series->object_weight };

	if (noises[at].is_pool && !series->may_be_pool)
		return false;
	basis_make(series, &noise, noises[at].walks ? walk : 0, period, basis);
	*search = (struct candidate_search){
		.series = series,
		.basis = basis,
		.square_sum = column_product(&basis->values, &basis->values, 0, basis->count),
		.log_prior = log(noises[at].prior),
		.log_count = log((double)series->count),
	};
	return true;
}

void candidates_find(const struct growth_data *series, double rise, double period,
	struct shape_candidate best[SHAPES])
{
	for (size_t i = 0; i < SHAPES; i++)
		best[i].score = -INFINITY;
	for (size_t i = 0; i < sizeof noises / sizeof noises[0]; i++) {
		struct candidate_search search;
		struct basis basis;
		if (!search_make(series, i, rise, period, &basis, &search))
			continue;
		search.best = best;
		const bool has_steps = try_steps(&search);
		if (has_steps)
			try_adjacent_steps(&search);
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

/* The same penalty for growth that continues, so that only the quality of the fit counts. */
static void try_ends(const struct candidate_search *search, bool falls, struct shape_ends *ends)
{
	const struct growth_data *const series = search->series;
	const struct basis *const basis = search->basis;
	const double left = column_product(&basis->values, &basis->values, 0, basis->count);
	struct hinge_products products;
	struct shape_candidate candidate;

	multiply_hinges(basis, series, &products);
	for (size_t first = 0; first < series->count; first++) {
		if (!may_begin(series, first) || (products.gains[first] < 0) != falls)
			continue;
		ends->goes_on_scores[first] = fmax(ends->goes_on_scores[first],
			score_of(search,
				left - basis_explained(basis, growth_from(basis, first), NULL),
				first == 0 ? moment_price : moment_price + 1));
		ends->goes_on_score = fmax(ends->goes_on_score, ends->goes_on_scores[first]);
		for (size_t end = first + 1; end < series->count; end++) {
			if (!growth_data_may_bend(series, end) ||
				!rise_between(search, &products, left, first, end, &candidate) ||
				(candidate.slope < 0) != falls)
				continue;
			ends->scores[end] = fmax(ends->scores[end], candidate.score);
			ends->onset_scores[first] =
				fmax(ends->onset_scores[first], candidate.score);
			/* What rises within one interval is a step. */
			if (first + 1 < end && candidate.score > ends->best.score)
				ends->best = candidate;
		}
	}
}

void candidates_find_ends(const struct growth_data *series, double rise,
	const struct shape_candidate *growth, struct shape_ends *ret)
{
	const double clearly = 3;
	const bool falls = growth->shape == SHAPE_HINGE ? growth->slope < 0 : rise < 0;

	*ret = (struct shape_ends){ .best.score = -INFINITY, .goes_on_score = -INFINITY };
	for (size_t i = 0; i < GROWTH_POINTS; i++)
		ret->scores[i] = ret->onset_scores[i] = ret->goes_on_scores[i] = -INFINITY;
	for (size_t i = 0; i < sizeof noises / sizeof noises[0]; i++) {
		struct candidate_search search;
		struct basis basis;
		if (!search_make(series, i, rise, 0, &basis, &search))
			continue;
		for (size_t j = 0; j < growth->step_count; j++)
			basis_remove(&basis, series, basis.steps[growth->steps[j]]);
		try_ends(&search, falls, ret);
	}
	ret->is_found = ret->best.score > ret->goes_on_score + log((double)series->count) + clearly;
}
