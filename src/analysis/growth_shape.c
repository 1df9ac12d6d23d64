/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_shape.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/growth_candidates.h"

/* Residuals of each run's own mean and a common line. */
struct flattened {
	double residuals[GROWTH_POINTS];
	double hours[GROWTH_POINTS];
	double square_sum;
	double rise; /* of the line, over the longest run */
};

static struct flattened flatten(const struct growth_data *series)
{
	struct flattened flat = { 0 };
	double tt = 0, ty = 0, longest = 0;

	for (size_t r = 0; r < series->run_count; r++) {
		const struct growth_data_run *const run = &series->runs[r];
		const double start = series->points[run->first].hours;
		for (size_t i = run->first; i < run->end; i++) {
			flat.hours[i] = series->points[i].hours - start - run->mean_course;
			flat.residuals[i] = series->points[i].value - run->mean_value;
			tt += flat.hours[i] * flat.hours[i];
			ty += flat.hours[i] * flat.residuals[i];
		}
		longest = fmax(longest, run->span_hours);
	}
	for (size_t i = 0; i < series->count; i++) {
		flat.residuals[i] -= ty / tt * flat.hours[i];
		flat.square_sum += flat.residuals[i] * flat.residuals[i];
	}
	flat.rise = ty / tt * longest;
	return flat;
}

/* How much of the residuals a wave of this period explains; its amplitude. */
static double wave_square_sum(const struct growth_data *series, const struct flattened *flat,
	double period, double *amplitude)
{
	double cc = 0, cs = 0, ss = 0, yc = 0, ys = 0;

	for (size_t i = 0; i < series->count; i++) {
		const double angle = 2 * M_PI * flat->hours[i] / period;
		const double c = cos(angle), s = sin(angle);
		cc += c * c;
		cs += c * s;
		ss += s * s;
		yc += flat->residuals[i] * c;
		ys += flat->residuals[i] * s;
	}
	const double determinant = cc * ss - cs * cs;
	if (determinant < 1e-9 * cc * ss)
		return 0;
	const double a = (yc * ss - ys * cs) / determinant;
	const double b = (ys * cc - yc * cs) / determinant;
	*amplitude = hypot(a, b);
	return a * yc + b * ys;
}

/* Falls between rises (or the reverse, by the sign), clearly beyond what noise does to a level. */
static size_t count_falls(const struct growth_data *series, double sign, double min_height)
{
	const double standard_errors = 2;
	size_t falls = 0;

	for (size_t r = 0; r < series->run_count; r++) {
		const struct growth_data_run *const run = &series->runs[r];
		double extreme = series->points[run->first].value; /* since it last turned */
		bool falls_now = false;
		for (size_t i = run->first + 1; i < run->end; i++) {
			const double value = series->points[i].value;
			const double noise = standard_errors *
					     sqrt(series->object_weight * fmax(value + extreme, 0) /
						     (double)series->block);
			const double way = sign * (value - extreme) * (falls_now ? -1 : 1);
			if (way >= 0) {
				extreme = value;
			} else if (-way > fmax(min_height, noise)) {
				falls_now = !falls_now;
				falls += falls_now;
				extreme = value;
			}
		}
	}
	return falls;
}

static const double min_period_error = 0.35; /* in steps */

/* At least two periods in the longest run, three points in a period. */
static void find_wave(
	const struct growth_data *series, const struct flattened *flat, struct growth_shape *shape)
{
	const double noise = (double)series->count * series->plain_variance;
	const double step = series->usual_hours;
	/* Holes make room for waves that no points have shown. */
	const double max_waves = (double)series->count / 3;
	double span = step, best = 0, best_period = 0, best_amplitude = 0;

	for (size_t r = 0; r < series->run_count; r++)
		span = fmax(span, series->runs[r].span_hours + step);
	if (series->count < 8 || flat->square_sum < 3 * noise)
		return;
	for (double waves = 2; span / waves >= 3 * step && waves <= max_waves; waves += 0.1) {
		double amplitude = 0;
		const double explained = wave_square_sum(series, flat, span / waves, &amplitude);
		if (explained > best) {
			best = explained;
			best_period = span / waves;
			best_amplitude = amplitude;
		}
	}
	if (best < 0.5 * flat->square_sum)
		return;
	/* A row of steps looks like growth with as many waves, but never falls. */
	const size_t min_falls = (size_t)round(span / best_period) - 1;
	const bool outgrows = fabs(flat->rise) > 2 * best_amplitude;
	if (outgrows && count_falls(series, flat->rise < 0 ? -1 : 1, best_amplitude) < min_falls)
		return;
	/* A few waves determine a period badly, and whole steps are likelier. */
	const double whole_steps = round(best_period / step) * step;
	const bool is_whole = fabs(span / best_period - span / whole_steps) <= 0.25;
	shape->period_hours = is_whole ? whole_steps : best_period;
	/* Three periods show whether it is one of whole steps. */
	if (is_whole && span / whole_steps < 3)
		shape->period_error_hours =
			fmax(fabs(best_period - whole_steps), min_period_error * step);
	shape->outgrows_swings = flat->rise > 2 * best_amplitude;
}

static int by_before(const void *a, const void *b)
{
	const struct shape_step *const x = a, *const y = b;

	return (x->before > y->before) - (x->before < y->before);
}

static double mean_between(const struct growth_data *series, size_t first, size_t end)
{
	double sum = 0;

	for (size_t i = first; i < end; i++)
		sum += series->points[i].value;
	return sum / (double)(end - first);
}

/* Of growth from one moment to another. */
static double mean_growth_hours(const struct growth_data *series, size_t first, size_t end,
	double onset_hours, double end_hours)
{
	double sum = 0;

	for (size_t i = first; i < end; i++)
		sum += fmax(fmin(series->points[i].hours, end_hours) - onset_hours, 0);
	return sum / (double)(end - first);
}

static struct shape_step step_between(const struct growth_data *series, size_t first, size_t before,
	size_t after, size_t end, double onset_hours, double end_hours)
{
	const bool is_cut = after == before + 1 && series->points[after].is_cut;
	const double from =
		is_cut ? series->points[before].last_hours : series->points[before].hours;
	const double to = is_cut ? series->points[after].first_hours : series->points[after].hours;

	return (struct shape_step){
		.step = { .hours = (from + to) / 2,
			.size = mean_between(series, after, end) -
				mean_between(series, first, before + 1),
			.lasted_hours = to - from },
		.before = before,
		.growth_hours =
			mean_growth_hours(series, after, end, onset_hours, end_hours) -
			mean_growth_hours(series, first, before + 1, onset_hours, end_hours),
	};
}

static void describe_steps(const struct growth_data *series,
	const struct shape_candidate *candidate, struct growth_shape *shape)
{
	if (candidate->shape == SHAPE_RISE) {
		shape->step_count = 1;
		shape->steps[0] = step_between(series,
			growth_data_run_begin(series, candidate->onset), candidate->onset,
			candidate->end, growth_data_run_end(series, candidate->end), 0, INFINITY);
		shape->steps[0].step.is_gradual = true;
		return;
	}
	const double onset_hours = shape->has_onset ? shape->onset_hours : series->points[0].hours;
	const double end_hours = shape->has_end ? shape->end_hours : INFINITY;
	shape->step_count = candidate->step_count;
	for (size_t i = 0; i < candidate->step_count; i++)
		shape->steps[i].before = candidate->steps[i];
	qsort(shape->steps, shape->step_count, sizeof shape->steps[0], by_before);
	for (size_t i = 0; i < shape->step_count; i++) {
		const size_t before = shape->steps[i].before;
		size_t first = growth_data_run_begin(series, before),
		       end = growth_data_run_end(series, before);
		if (i > 0 && shape->steps[i - 1].before >= first)
			first = shape->steps[i - 1].before + 1;
		if (i + 1 < shape->step_count && shape->steps[i + 1].before < end)
			end = shape->steps[i + 1].before + 1;
		shape->steps[i] = step_between(
			series, first, before, before + 1, end, onset_hours, end_hours);
	}
}

/* 95% of the weight of all moments. */
static void describe_onset(const struct growth_data *series, size_t onset,
	const double scores[GROWTH_POINTS], struct growth_shape *shape)
{
	double weights[GROWTH_POINTS], sum = 0, passed = 0;
	size_t low = 0, high = 0;

	shape->has_onset = true;
	shape->onset_hours = series->points[onset].hours;
	for (size_t i = 0; i < series->count; i++) {
		weights[i] = exp(fmin(scores[i] - scores[onset], 0));
		sum += weights[i];
	}
	for (size_t i = 0; i < series->count; i++) {
		if (passed < 0.025 * sum)
			low = i;
		if (passed < 0.975 * sum)
			high = i;
		passed += weights[i];
	}
	const struct growth_moment moment =
		growth_data_moment(series, low < onset ? low : onset, high > onset ? high : onset);
	shape->onset_low = moment.low;
	shape->onset_high = moment.high;
}

bool growth_step_is_of_onset(
	const struct growth_step *step, double before_hours, double onset_hours, double rate)
{
	return fabs(before_hours - onset_hours) <= step->lasted_hours &&
	       fabs(step->size) < fabs(rate) * step->lasted_hours;
}

/* The growth beside fitted steps: its rate, and what the points leave of it and the levels. */
struct growth_beside {
	double rate, rate_variance;
	double residual_variance; /* of a point */
};

static struct growth_beside fit_beside(
	const struct growth_data *series, double onset_hours, const struct growth_shape *shape)
{
	struct growth_data bent = *series;
	size_t before[GROWTH_MAX_STEPS];

	for (size_t i = 0; i < shape->step_count; i++)
		before[i] = shape->steps[i].before;
	if (!growth_data_split(&bent, before, shape->step_count) ||
		!growth_data_bend(&bent, onset_hours, INFINITY))
		return (struct growth_beside){ 0 };
	const double residual_variance = growth_data_residual_variance(&bent);
	return (struct growth_beside){ bent.plain_rate, residual_variance / bent.square_hours,
		residual_variance };
}

/* Of the difference of the levels before and after a step, beside growth. */
static double step_variance(const struct growth_data *series, const struct growth_shape *shape,
	size_t at, const struct growth_beside *beside)
{
	const struct shape_step *const step = &shape->steps[at];
	size_t first = growth_data_run_begin(series, step->before),
	       end = growth_data_run_end(series, step->before);

	if (at > 0 && shape->steps[at - 1].before >= first)
		first = shape->steps[at - 1].before + 1;
	if (at + 1 < shape->step_count && shape->steps[at + 1].before < end)
		end = shape->steps[at + 1].before + 1;
	return beside->residual_variance * (1 / (double)(step->before + 1 - first) +
						   1 / (double)(end - 1 - step->before)) +
	       beside->rate_variance * step->growth_hours * step->growth_hours;
}

/*
 * How far a step beside growth stands out of what that adds by chance in the same time, as objects
 * come one by one, and each is sampled or not, and of how well the levels beside it are known. Up
 * to 1 it may be any of this many intervals.
 */
static double step_clearness(const struct growth_data *series, const struct growth_shape *shape,
	size_t at, const struct growth_beside *beside)
{
	const double price = 2 * (1.5 * log((double)series->count) + 1.5);
	const double weight = series->object_weight;
	const struct shape_step *const step = &shape->steps[at];
	const double hours =
		series->points[step->before + 1].hours - series->points[step->before].hours;
	const double variance =
		weight * fabs(beside->rate) * hours + step_variance(series, shape, at, beside);
	const double chance = sqrt(price * variance) + price / 6 * weight;

	return fabs(step->step.size) / fmax(chance, growth_data_min_step(series));
}

static void remove_step(struct shape_candidate *candidate, size_t before)
{
	size_t left = 0;

	for (size_t i = 0; i < candidate->step_count; i++) {
		if (candidate->steps[i] != before)
			candidate->steps[left++] = candidate->steps[i];
	}
	candidate->step_count = left;
}

/*
 * Whether the points beside a step move by less than half of it, beyond what noise does to a level,
 * or it takes more than was there. Growth that pauses, ended or began later looks like a step
 * against it.
 */
static bool is_step_contradicted(const struct growth_data *series, const struct shape_step *step)
{
	const double standard_errors = 2;
	const double before = series->points[step->before].value,
		     after = series->points[step->before + 1].value;
	const double noise =
		standard_errors *
		sqrt(series->object_weight * fmax(before + after, 0) + series->min_variance);
	const double size = fabs(step->step.size);
	const double there = step->step.size > 0 ? after - before : before - after;

	return there < size / 2 - noise || (step->step.size < 0 && size > before + noise);
}

/*
 * A step between the onset and the next point that takes back most of the growth between them only
 * shows that growth began shortly before the next point: a line from there on, after a step of what
 * had grown until then, is the same.
 */
static bool begins_after_step(const struct growth_data *series, size_t onset,
	const struct shape_step *step, double growth_rate)
{
	const double most = 0.5;
	const double grown = growth_rate * step->step.lasted_hours;

	return step->before == onset && growth_data_may_bend(series, onset + 1) &&
	       step->step.size / grown < -most;
}

/*
 * The noise that suits growth best may be one that what grows cannot have. The steps that it needs
 * are removed, the least clear one first; but those by which growth began between two points.
 * Whether there were any.
 */
static bool remove_unclear_steps(const struct growth_data *series, struct shape_candidate *growth)
{
	struct growth_shape shape = { .has_onset = growth->shape == SHAPE_HINGE };
	bool has_removed = false;

	while (growth->step_count > 0) {
		double min = 1;
		size_t unclear = series->count;
		bool is_moved = false;
		if (shape.has_onset)
			shape.onset_hours = series->points[growth->onset].hours;
		describe_steps(series, growth, &shape);
		const struct growth_beside beside =
			fit_beside(series, shape.has_onset ? shape.onset_hours : -INFINITY, &shape);
		for (size_t i = 0; i < shape.step_count && !is_moved; i++) {
			struct shape_step *const step = &shape.steps[i];
			step->step.size -= beside.rate * step->growth_hours;
			is_moved = shape.has_onset &&
				   begins_after_step(series, growth->onset, step, beside.rate);
			const double clearness =
				is_step_contradicted(series, step)
					? 0
					: step_clearness(series, &shape, i, &beside);
			const bool is_of_onset =
				shape.has_onset && growth_step_is_of_onset(&step->step,
							   series->points[step->before].hours,
							   shape.onset_hours, beside.rate);
			if (clearness < min && !is_of_onset) {
				min = clearness;
				unclear = step->before;
			}
		}
		if (is_moved) {
			growth->onset++;
			continue;
		}
		if (unclear == series->count)
			break;
		remove_step(growth, unclear);
		has_removed = true;
	}
	return has_removed;
}

/* Beside the steps that are left growth may begin elsewhere than beside all of them. */
static size_t best_onset(const struct growth_data *series, const double scores[GROWTH_POINTS])
{
	size_t best = 1;

	for (size_t i = 2; i < series->count; i++)
		best = scores[i] > scores[best] ? i : best;
	return best;
}

static const double in_interval = 1.92; /* half of the 95% point of chi-squared */

/* Since when, and until when: growth that continues ends at the last point. */
static void describe_growth(const struct growth_data *series, const struct shape_candidate *growth,
	double rise, bool may_begin_elsewhere, struct growth_shape *shape)
{
	const double last = series->points[series->count - 1].hours;
	struct shape_ends ends;

	candidates_find_ends(series, rise, growth, &ends);
	shape->has_end = ends.is_found;
	shape->falls = growth->shape == SHAPE_HINGE ? growth->slope < 0 : rise < 0;
	double max = ends.goes_on_score;
	for (size_t i = 0; i < series->count; i++)
		max = fmax(max, ends.scores[i]);
	shape->goes_on = true;
	shape->end_hours = ends.is_found ? series->points[ends.best.end].hours : last;
	shape->end_low = shape->end_hours;
	shape->end_high = shape->end_hours;
	for (size_t i = 0; i < series->count; i++) {
		if (ends.scores[i] <= max - in_interval)
			continue;
		const struct growth_moment moment = growth_data_moment(series, i, i);
		shape->goes_on = false;
		shape->end_low = fmin(shape->end_low, moment.low);
		shape->end_high = fmax(shape->end_high, moment.high);
	}
	/* Nothing has changed since. */
	const struct growth_data_point *const before_last = &series->points[series->count - 2];
	if (shape->goes_on && before_last->value == before_last[1].value) {
		shape->goes_on = false;
		shape->end_low = before_last->hours;
	}
	if (ends.is_found && ends.best.onset != 0)
		describe_onset(series, ends.best.onset, ends.onset_scores, shape);
	else if (!ends.is_found && growth->shape == SHAPE_HINGE)
		describe_onset(series,
			may_begin_elsewhere ? best_onset(series, ends.goes_on_scores)
					    : growth->onset,
			ends.goes_on_scores, shape);
	if (shape->has_onset)
		shape->end_low = fmax(shape->end_low, shape->onset_hours);
}

/* By how much a line through these points rises, from the first to the last. */
static double rise_of_line(const struct growth_data *series, size_t first, size_t end)
{
	const struct growth_data_point *const points = series->points;
	const double middle = mean_between(series, first, end);
	double hours = 0, tt = 0, ty = 0;

	for (size_t i = first; i < end; i++)
		hours += points[i].hours / (double)(end - first);
	for (size_t i = first; i < end; i++) {
		tt += (points[i].hours - hours) * (points[i].hours - hours);
		ty += (points[i].hours - hours) * (points[i].value - middle);
	}
	return tt > 0 ? ty / tt * (points[end - 1].hours - points[first].hours) : 0;
}

/*
 * What the level after a rise still rises by, or falls (below 0), as a share of it; 0 when it may
 * be the noise of a level.
 */
static double share_after_rise(
	const struct growth_data *series, const struct shape_candidate *rise, double size)
{
	const size_t end = growth_data_run_end(series, rise->end);
	const double standard_errors = 3, min_share = 0.2;
	const double more = rise_of_line(series, rise->end, end);
	const double level = fmax(mean_between(series, rise->end, end), 0);
	const double noise = sqrt(series->object_weight * level + series->min_variance);

	return fabs(more) > standard_errors * noise && fabs(more) > min_share * fabs(size)
		       ? more / size
		       : 0;
}

/*
 * The best steps or the best rise may still be a poor fit: of what rises and then falls, or swings.
 * Then nothing is reported about them. A rise that continues more slowly is marked.
 */
static void check_steps(const struct growth_data *series, const struct shape_candidate *still,
	struct growth_shape *shape)
{
	bool is_poor = false;

	if (still->shape == SHAPE_RISE) {
		struct growth_step *const rise = &shape->steps[0].step;
		const double share = share_after_rise(series, still, rise->size);
		is_poor = share < 0;
		rise->goes_on_slower = share > 0;
	} else {
		for (size_t i = 0; i < shape->step_count; i++)
			is_poor |= is_step_contradicted(series, &shape->steps[i]) ||
				   fabs(shape->steps[i].step.size) <
					   growth_data_min_object_step(series);
	}
	if (is_poor) {
		shape->is_jump = shape->beats_level = false;
		shape->step_count = 0;
	}
}

/* Whether what rises falls again by half of that, or more, within a run; or the reverse. */
static bool is_taken_back(const struct growth_data *series, double rise)
{
	const double sign = rise < 0 ? -1 : 1;
	double max = -INFINITY, back = 0;

	for (size_t i = 0; i < series->count; i++) {
		const double value = sign * series->points[i].value;
		if (i > 0 && series->points[i].run != series->points[i - 1].run)
			max = -INFINITY;
		max = fmax(max, value);
		back = fmax(back, max - value);
	}
	return back > fabs(rise) / 2;
}

/* Nothing but noise, as it would be if all were replaced from point to point, and no less of it. */
static bool is_quiet(const struct growth_data *series)
{
	const double freedom = (double)(series->count - series->run_count);
	const double max = freedom + 1.3 * sqrt(2 * freedom), min = freedom / 2;
	const double rise = series->plain_rate * series->plain_rate * series->square_hours /
			    series->plain_variance * (double)series->block;

	return series->plain_square_sum <= 0 ||
	       (series->plain_square_sum < max && series->plain_square_sum > min && rise < 2);
}

/*
 * Whether growth begins before the last two points and has a step there, too: both together fit any
 * two points, and are no reason against a step alone.
 */
static bool fits_any_last_points(
	const struct growth_data *series, const struct shape_candidate *growth)
{
	if (growth->shape != SHAPE_HINGE || growth->onset + 3 < series->count)
		return false;
	for (size_t i = 0; i < growth->step_count; i++) {
		if (growth->steps[i] >= growth->onset)
			return true;
	}
	return false;
}

struct growth_shape growth_shape_of(const struct growth_data *series)
{
	const double clearly = 3;
	/* Schwarz's criterion is for many points: in a few it lets noise pass for a step. */
	const double few_points = 12 / (double)series->count;
	const struct flattened flat = flatten(series);
	struct shape_candidate best[SHAPES] = { 0 };
	struct growth_shape swings = { 0 }, shape = { 0 };

	if (series->count < 4)
		return shape;
	find_wave(series, &flat, &swings);
	if (swings.period_hours == 0 && is_quiet(series))
		return shape;
	candidates_find(series, flat.rise, swings.period_hours, best);
	/* A rise that is reported to end earlier than it did does not count. */
	const bool is_rise = best[SHAPE_RISE].score > best[SHAPE_STEPS].score &&
			     best[SHAPE_RISE].score > best[SHAPE_ENDED].score - clearly;
	const struct shape_candidate *const still =
		is_rise ? &best[SHAPE_RISE] : &best[SHAPE_STEPS];
	struct shape_candidate *const growth = best[SHAPE_HINGE].score > best[SHAPE_LINE].score
						       ? &best[SHAPE_HINGE]
						       : &best[SHAPE_LINE];
	const double other = fmax(best[SHAPE_LEVEL].score, growth->score);
	const double saw = best[SHAPE_SAW].score;
	if (swings.period_hours > 0 &&
		fmax(best[SHAPE_WAVE].score, saw) > fmax(still->score, other))
		return swings;
	const bool is_saw = saw > fmax(still->score, other) + clearly;
	shape.is_step = is_saw && is_taken_back(series, flat.rise);
	/* Growth that only steps beside it make likely is none where they are likelier alone. */
	if (is_saw && (shape.is_step || still->score <= other))
		return shape;
	if (still->score > other - (growth->score >= other ? clearly : 0)) {
		shape.is_step = true;
		shape.beats_level = still->score > best[SHAPE_LEVEL].score + clearly + few_points;
		shape.is_jump = shape.beats_level && (still->score > growth->score ||
							     fits_any_last_points(series, growth));
		describe_steps(series, still, &shape);
		check_steps(series, still, &shape);
		return shape;
	}
	if (growth->score < best[SHAPE_LEVEL].score)
		return shape;
	const bool has_removed = remove_unclear_steps(series, growth);
	shape.grows_beside_steps = growth->step_count > 0;
	describe_growth(series, growth, flat.rise, has_removed, &shape);
	describe_steps(series, growth, &shape);
	return shape;
}
