/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/growth_data.h"
#include "analysis/growth_rate.h"
#include "analysis/growth_shape.h"

static void find_rates(
	const struct growth_data *series, enum growth_noise noise, struct growth *growth)
{
	const struct growth_rate found = growth_rate_find(series, noise);

	growth->rate = found.rate;
	growth->low = found.low;
	growth->high = found.high;
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
	const bool grows = growth->p < GROWTH_LEVEL && growth->low > 0;

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

	return growth_data_bend(&bent, onset_hours, end_hours) && growth_rate_falls(&bent);
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
	bool falls = growth_rate_find_p(&shaped, &growth.p);
	const bool falls_later = shape.has_onset && shape.falls &&
				 falls_since(&shaped, shape.onset_hours, end_of_growth(&shape));
	falls |= falls_later;
	/* What is no growth leaves the step. */
	shape.is_jump |= shape.beats_level && growth.p >= GROWTH_LEVEL;
	if (shape.grows_beside_steps && growth.p >= GROWTH_LEVEL && !falls) {
		shape.grows_beside_steps = false;
		shape.is_jump = has_large_step(&series, &shape);
		shaped = series;
	}
	if ((shape.has_onset || shape.has_end) &&
		(shape.falls ? (shape.has_onset ? falls_later : falls) : growth.p < GROWTH_LEVEL) &&
		growth_data_bend(&shaped, shape.has_onset ? shape.onset_hours : -INFINITY,
			end_of_growth(&shape)))
		copy_moments(&shape, &growth);
	/* What a fold leaves of swings is noise, because the period is not quite known. */
	const enum growth_noise noise = shape.period_hours > 0 ? NOISE_PROGRAM : NOISE_SAMPLING;
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

/* The mean after the last step of a run, or before its first. */
static double level_beside(const struct growth_data *series, const struct growth *growth,
	const struct growth_data_run *run, bool is_end)
{
	double sum = 0;
	size_t first = run->first, end = run->end;

	for (size_t i = 0; i < growth->step_count; i++) {
		const struct growth_step *const step = &growth->steps[i];
		const double half = 0.499 * step->lasted_hours;
		if (step->hours < series->points[run->first].hours ||
			step->hours > series->points[run->end - 1].hours)
			continue;
		while (is_end && first + 1 < end &&
			series->points[first].hours < step->hours + half)
			first++;
		while (!is_end && first + 1 < end &&
			series->points[end - 1].hours > step->hours - half)
			end--;
	}
	for (size_t i = first; i < end; i++)
		sum += series->points[i].value;
	return sum / (double)(end - first);
}

/* Of a point, by the ups and downs within runs. */
static double scatter_variance(const struct growth_data *series)
{
	return series->plain_square_sum * series->plain_variance / (double)series->block /
	       (double)(series->count - series->run_count);
}

static int by_hours(const void *a, const void *b)
{
	const struct growth_step *const x = a, *const y = b;

	return (x->hours > y->hours) - (x->hours < y->hours);
}

void growth_add_restarts(const struct growth_point *points, size_t count,
	const struct growth_objects *objects, struct growth *growth)
{
	const double clearly = 3; /* standard errors of two points of which none is in both */
	struct growth_step restarts[GROWTH_MAX_STEPS];
	struct growth_data series;
	size_t found = 0;

	if ((growth->kind != GROWTH_JUMP && growth->kind != GROWTH_NONE) || growth->may_be_step ||
		!growth_data_make(points, count, objects, &series))
		return;
	for (size_t i = 1; i < series.run_count; i++) {
		const struct growth_data_run *const last = &series.runs[i - 1],
						    *const next = &series.runs[i];
		const double before = level_beside(&series, growth, last, true),
			     after = level_beside(&series, growth, next, false);
		/* What never moves within a run is sampled, but does not come and go. */
		const bool is_still = series.plain_square_sum * series.plain_variance <=
					      (double)series.count * series.min_variance &&
				      last->end - last->first > 2 && next->end - next->first > 2;
		const double weight = is_still ? series.weight : series.object_weight;
		const double variance =
			fmax(weight * (before + after), 2 * scatter_variance(&series)) +
			series.min_variance;
		const double from = series.points[last->end - 1].hours,
			     to = series.points[next->first].hours;
		if (fabs(after - before) <= clearly * sqrt(variance))
			continue;
		if (growth->step_count + found == GROWTH_MAX_STEPS)
			return;
		restarts[found++] = (struct growth_step){ .hours = (from + to) / 2,
			.size = after - before,
			.lasted_hours = to - from,
			.is_restart = true };
	}
	if (found == 0)
		return;
	for (size_t i = 0; i < found; i++)
		growth->steps[growth->step_count++] = restarts[i];
	qsort(growth->steps, growth->step_count, sizeof growth->steps[0], by_hours);
	growth->kind = GROWTH_JUMP;
	growth->may_go_on &= !growth->steps[growth->step_count - 1].is_restart;
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
