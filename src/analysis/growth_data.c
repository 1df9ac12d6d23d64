/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/growth_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double period_error = 0.2; /* of a period's length, in steps; of how many there are */

static size_t run_length(const struct growth_point *points, size_t count)
{
	size_t length = 1;

	while (length < count && points[length].run == points[0].run)
		length++;
	return length;
}

/* Points that a run of this length is averaged to. */
static size_t part_count(size_t length, size_t block)
{
	const size_t parts = (length + block - 1) / block;

	return parts < 2 ? 2 : parts;
}

/* Some points, one after the other, that are of one run. */
struct run_span {
	size_t first, length;
};

/* The runs of two points at least, without the oldest beyond the room; how many. */
static size_t list_runs(
	const struct growth_point *points, size_t count, struct run_span ret[GROWTH_POINTS / 2])
{
	size_t listed = 0;

	for (size_t i = 0, length; i < count; i += length) {
		length = run_length(points + i, count - i);
		if (length < 2)
			continue;
		if (listed == GROWTH_POINTS / 2)
			memmove(ret, ret + 1, --listed * sizeof *ret);
		ret[listed++] = (struct run_span){ i, length };
	}
	return listed;
}

/* Points as they came that are averaged to one, so that there is room for all. */
static size_t find_block(const struct run_span *runs, size_t count)
{
	size_t block = 0, parts;

	do {
		block++;
		parts = 0;
		for (size_t i = 0; i < count; i++)
			parts += part_count(runs[i].length, block);
	} while (parts > GROWTH_POINTS);
	return block;
}

/* Of the points that were added since its first. */
static void end_run(struct growth_data *series, struct growth_data_run *run)
{
	const double start = series->points[run->first].hours;
	const double count = (double)(series->count - run->first);

	run->end = series->count;
	run->span_hours = series->points[run->end - 1].hours - start;
	for (size_t i = run->first; i < run->end; i++)
		run->mean_value += series->points[i].value / count;
}

static void measure_course(const struct growth_data *series, struct growth_data_run *run)
{
	const double start = series->points[run->first].course;
	const double count = (double)(run->end - run->first);

	run->span_course = series->points[run->end - 1].course - start;
	run->mean_course = 0;
	for (size_t i = run->first; i < run->end; i++)
		run->mean_course += (series->points[i].course - start) / count;
}

/* Sudden changes of a run: each is the first point after one. None where there are many: swings. */
struct cuts {
	size_t at[GROWTH_MAX_STEPS];
	size_t count;
};

static struct cuts find_cuts(
	const struct growth_point *points, size_t count, const struct growth_data *series)
{
	/* Of this many changes one is as large by chance, when objects come one by one. */
	const double price = 2 * (1.5 * log((double)count) + 1.5);
	const double standing_out = 5, weight = series->weight;
	struct cuts cuts = { .count = 0 };
	double mean = 0;

	for (size_t i = 1; i < count; i++)
		mean += fabs(points[i].value - points[i - 1].value) / (double)(count - 1);
	const double min =
		fmax(standing_out * mean, fmax(sqrt(price * weight * mean) + price / 6 * weight,
						  growth_data_min_step(series)));
	for (size_t i = 1; i < count; i++) {
		if (fabs(points[i].value - points[i - 1].value) <= min)
			continue;
		if (cuts.count == GROWTH_MAX_STEPS)
			return (struct cuts){ .count = 0 };
		cuts.at[cuts.count++] = i;
	}
	return cuts;
}

/* Where each part begins, and the last one ends. */
struct run_parts {
	size_t bounds[GROWTH_POINTS + 1];
	bool is_cut[GROWTH_POINTS + 1];
};

/*
 * Each cut is a bound, as an average over one would be no level; between them parts are of equal
 * length. Each next part goes where the longest ones are.
 */
static struct run_parts divide_run(size_t count, size_t number, const struct cuts *cuts)
{
	const size_t cut_count = cuts->count < number ? cuts->count : number - 1;
	size_t begins[GROWTH_MAX_STEPS + 2] = { 0 }, shares[GROWTH_MAX_STEPS + 1];
	struct run_parts parts = { .is_cut = { false } };
	size_t at = 0;

	for (size_t i = 0; i <= cut_count; i++) {
		begins[i + 1] = i < cut_count ? cuts->at[i] : count;
		shares[i] = 1;
	}
	for (size_t left = number - cut_count - 1; left > 0; left--) {
		size_t longest = 0;
		for (size_t i = 1; i <= cut_count; i++) {
			if ((begins[i + 1] - begins[i]) * shares[longest] >
				(begins[longest + 1] - begins[longest]) * shares[i])
				longest = i;
		}
		shares[longest]++;
	}
	for (size_t i = 0; i <= cut_count; i++) {
		const size_t length = begins[i + 1] - begins[i];
		parts.is_cut[at] = i > 0;
		for (size_t j = 0; j < shares[i]; j++)
			parts.bounds[at++] = begins[i] + j * length / shares[i];
	}
	parts.bounds[number] = count;
	return parts;
}

static void average_run(
	const struct growth_point *points, size_t count, size_t number, struct growth_data *series)
{
	struct growth_data_run *const run = &series->runs[series->run_count++];
	const struct cuts cuts =
		number < count ? find_cuts(points, count, series) : (struct cuts){ .count = 0 };
	const struct run_parts parts = divide_run(count, number, &cuts);

	run->first = series->count;
	for (size_t part = 0; part < number; part++) {
		const size_t first = parts.bounds[part], end = parts.bounds[part + 1];
		struct growth_data_point *const point = &series->points[series->count++];
		*point = (struct growth_data_point){ .first_hours = points[first].hours,
			.last_hours = points[end - 1].hours,
			.is_cut = parts.is_cut[part],
			.run = points[0].run };
		for (size_t i = first; i < end; i++) {
			point->hours += points[i].hours / (double)(end - first);
			point->value += points[i].value / (double)(end - first);
		}
		point->course = point->hours;
	}
	end_run(series, run);
}

static void average(const struct growth_point *points, size_t count, struct growth_data *series)
{
	struct run_span runs[GROWTH_POINTS / 2];
	const size_t run_count = list_runs(points, count, runs);

	series->block = find_block(runs, run_count);
	for (size_t i = 0; i < run_count; i++)
		average_run(points + runs[i].first, runs[i].length,
			part_count(runs[i].length, series->block), series);
}

static void measure_noise(
	const struct growth_point *points, size_t count, struct growth_data *series)
{
	const double double_error = 1e-6;
	double values = 0, variances = 0, largest = 1;

	for (size_t i = 0; i < count; i++) {
		values += points[i].value;
		variances += points[i].variance;
		largest = fmax(largest, fabs(points[i].value));
	}
	series->min_variance = largest * double_error * largest * double_error;
	series->variance = fmax(variances / (double)count, series->min_variance);
	series->weight = values > 0 ? variances / values : 0;
}

static void measure_objects(const struct growth_objects *objects, struct growth_data *series)
{
	const double alike = 1.1; /* weights that differ by less count as the same */
	double hours = 0;

	for (size_t i = 0; i < series->run_count; i++)
		hours += series->runs[i].span_hours;
	series->object_weight = series->weight;
	series->arrivals = -1;
	if (objects == NULL)
		return;
	series->object_weight = fmax(objects->weight, series->weight);
	series->min_object = objects->min_weight;
	series->may_be_pool = series->object_weight > alike * series->weight;
	if (!objects->has_arrivals || !(objects->live > 0))
		return;
	series->arrivals = objects->arrivals;
	series->object_hours = objects->live * hours;
}

static void measure_variation(struct growth_data *series)
{
	double sum = 0, square_sum = 0;

	for (size_t r = 0; r < series->run_count; r++) {
		const struct growth_data_run *const run = &series->runs[r];
		for (size_t i = run->first; i < run->end; i++) {
			const double residual = series->points[i].value - run->mean_value;
			sum += series->points[i].value;
			square_sum += residual * residual;
		}
	}
	series->plain_variance =
		series->object_weight * fmax(sum, 0) / (double)series->count + series->min_variance;
	series->plain_square_sum = square_sum * (double)series->block / series->plain_variance;
}

/* By the points as they came, since averages are of whole swings. */
static bool has_fluctuation(
	const struct growth_point *points, size_t count, const struct growth_data *series)
{
	const double standard_errors = 4, min = 3;
	double square_sum = 0, freedom = 0;

	for (size_t first = 0, length; first < count; first += length) {
		double mean = 0;
		length = run_length(points + first, count - first);
		for (size_t i = first; i < first + length; i++)
			mean += points[i].value / (double)length;
		for (size_t i = first; i < first + length; i++)
			square_sum += (points[i].value - mean) * (points[i].value - mean) /
				      series->plain_variance;
		freedom += (double)length - 1;
	}
	return square_sum > fmax(min * freedom, freedom + standard_errors * sqrt(2 * freedom));
}

/* Also the centered hours that it is taken with. */
static void measure_rate(struct growth_data *series)
{
	double tt = 0, ty = 0;

	series->level_count = 0;
	for (size_t i = 0; i < series->run_count; i++) {
		struct growth_data_run *const run = &series->runs[i];
		measure_course(series, run);
		double middles[SERIES_PHASES] = { 0 };
		size_t counts[SERIES_PHASES] = { 0 };
		for (size_t j = run->first; j < run->end; j++) {
			const struct growth_data_point *const point = &series->points[j];
			const double count = (double)++counts[point->phase];
			series->level_count += counts[point->phase] == 1;
			middles[point->phase] += (point->course - middles[point->phase]) / count;
		}
		for (size_t j = run->first; j < run->end; j++) {
			struct growth_data_point *const point = &series->points[j];
			point->centered_hours = point->course - middles[point->phase];
			tt += point->centered_hours * point->centered_hours;
			ty += point->centered_hours * (point->value - run->mean_value);
		}
	}
	series->square_hours = tt;
	series->plain_rate = tt > 0 ? ty / tt : 0;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double usual_distance(const struct growth_data *series)
{
	double distances[GROWTH_POINTS];
	size_t count = 0;

	for (size_t i = 0; i < series->run_count; i++) {
		const struct growth_data_run *const run = &series->runs[i];
		for (size_t j = run->first + 1; j < run->end; j++)
			distances[count++] = series->points[j].hours - series->points[j - 1].hours;
	}
	qsort(distances, count, sizeof *distances, by_size);
	return count == 0 ? 0 : distances[count / 2];
}

static bool measure_times(struct growth_data *series)
{
	double hours = 0;
	size_t steps = 0;

	for (size_t i = 0; i < series->run_count; i++) {
		const struct growth_data_run *const run = &series->runs[i];
		hours += run->span_hours;
		steps += run->end - run->first - 1;
		series->span_hours = fmax(series->span_hours, run->span_hours);
	}
	series->step_hours = steps == 0 ? 0 : hours / (double)(steps * series->block);
	series->usual_hours = usual_distance(series);
	measure_rate(series);
	return series->step_hours > 0 && series->usual_hours > 0 && series->square_hours > 0;
}

/* What levels and growth leave of each point; the sum of the squares. */
static double find_residuals(const struct growth_data *series, double residuals[GROWTH_POINTS])
{
	double square_sum = 0;

	for (size_t r = 0; r < series->run_count; r++) {
		const struct growth_data_run *const run = &series->runs[r];
		double levels[SERIES_PHASES] = { 0 };
		size_t counts[SERIES_PHASES] = { 0 };
		for (size_t i = run->first; i < run->end; i++) {
			const struct growth_data_point *const point = &series->points[i];
			levels[point->phase] += (point->value - levels[point->phase]) /
						(double)++counts[point->phase];
		}
		for (size_t i = run->first; i < run->end; i++) {
			const struct growth_data_point *const point = &series->points[i];
			residuals[i] = point->value - levels[point->phase] -
				       series->plain_rate * point->centered_hours;
			square_sum += residuals[i] * residuals[i];
		}
	}
	return square_sum;
}

double growth_data_residual_variance(const struct growth_data *series)
{
	double residuals[GROWTH_POINTS];

	return find_residuals(series, residuals) /
	       ((double)(series->count - series->level_count) - 1);
}

/*
 * What of a point's distance from the line is no noise: as much as the series as a whole is farther
 * from it than noise is, beyond twice of that (as James and Stein shrink).
 */
static void measure_excess(struct growth_data *series)
{
	const double noise =
		(double)(series->count - series->level_count - 1) * series->plain_variance;
	double residuals[GROWTH_POINTS];
	const double departure = find_residuals(series, residuals);
	const double real = departure > 2 * noise ? 1 - 2 * noise / departure : 0;
	for (size_t r = 0; r < series->run_count; r++) {
		struct growth_data_run *const run = &series->runs[r];
		double min = 0;
		for (size_t i = run->first; i < run->end; i++)
			min = fmin(min, residuals[i]);
		for (size_t i = run->first; i < run->end; i++)
			series->points[i].excess = real * (residuals[i] - min);
		run->mean_excess = -real * min;
	}
}

bool growth_data_make(const struct growth_point *points, size_t count,
	const struct growth_objects *objects, struct growth_data *ret)
{
	*ret = (struct growth_data){ .phases = 1 };
	measure_noise(points, count, ret);
	average(points, count, ret);
	if (!measure_times(ret) || ret->count < ret->level_count + 2)
		return false;
	measure_objects(objects, ret);
	measure_variation(ret);
	measure_excess(ret);
	ret->fluctuates = has_fluctuation(points, count, ret);
	return true;
}

/* Whether there is growth to be seen, and more points than what it and the levels need. */
static bool measure_again(struct growth_data *series)
{
	measure_rate(series);
	if (!(series->square_hours > 0) || series->count < series->level_count + 2)
		return false;
	/* A fold has that of the points that it was made of. */
	if (series->period_hours == 0)
		measure_excess(series);
	return true;
}

bool growth_data_bend(struct growth_data *series, double onset_hours, double end_hours)
{
	for (size_t i = 0; i < series->count; i++)
		series->points[i].course =
			fmin(fmax(series->points[i].hours, onset_hours), end_hours);
	return measure_again(series);
}

bool growth_data_split(struct growth_data *series, const size_t *steps, size_t step_count)
{
	for (size_t i = 0; i < series->count; i++) {
		struct growth_data_point *const point = &series->points[i];
		point->phase = 0;
		while (point->phase < step_count && steps[point->phase] < i)
			point->phase++;
	}
	series->phases = step_count + 1;
	return measure_again(series);
}

/*
 * One point for each phase of a whole period, where there are any: a series may have holes. Returns
 * how many were averaged.
 */
static size_t fold_run(const struct growth_data *series, const struct growth_data_run *source,
	double period, struct growth_data *ret)
{
	const double step = series->usual_hours;
	const double start = series->points[source->first].hours - step / 2;
	const double last = series->points[source->end - 1].hours;
	const size_t periods = (size_t)((source->span_hours + step) / period + period_error);
	const double phase_hours = period / (double)ret->phases;
	const size_t first = ret->count;
	size_t i = source->first;

	while (i < source->end) {
		const size_t from = i;
		const size_t at = (size_t)((series->points[i].hours - start) / phase_hours);
		const double end = start + phase_hours * (double)(at + 1);
		/* Phases have levels of their own, so that a part of a period will do. */
		if (ret->phases == 1 ? at >= periods : end - step / 2 > last + period_error * step)
			break;
		struct growth_data_point *const point = &ret->points[ret->count++];
		*point = (struct growth_data_point){ .run = series->points[from].run,
			.phase = (uint32_t)(at % ret->phases) };
		for (; i < source->end && (i == from || series->points[i].hours < end); i++) {
			point->hours += series->points[i].hours;
			point->value += series->points[i].value;
			point->excess += series->points[i].excess;
		}
		point->hours /= (double)(i - from);
		point->course = point->hours;
		point->value /= (double)(i - from);
		point->excess /= (double)(i - from);
	}
	if (ret->count - first < 2 * ret->phases) {
		ret->count = first;
		return 0;
	}
	struct growth_data_run *const run = &ret->runs[ret->run_count++];
	run->first = first;
	run->mean_excess = source->mean_excess;
	end_run(ret, run);
	return i - source->first;
}

bool growth_data_fold(const struct growth_data *series, double period_hours, bool by_phase,
	struct growth_data *ret)
{
	const double steps = period_hours / series->usual_hours, whole_steps = round(steps);
	/* By how much the phases are other ones at the end. */
	const double drift = fabs(steps - whole_steps) * series->span_hours / period_hours;
	const size_t phases = by_phase && drift <= 0.5 ? (size_t)whole_steps : 1;

	if (steps < 2 - period_error)
		return false;
	*ret = (struct growth_data){
		.phases = phases < SERIES_PHASES ? phases : SERIES_PHASES,
		.variance = series->variance,
		.weight = series->weight,
		.object_weight = series->object_weight,
		.min_object = series->min_object,
		.may_be_pool = series->may_be_pool,
		.arrivals = series->arrivals,
		.object_hours = series->object_hours,
		.plain_variance = series->plain_variance,
		.period_hours = period_hours,
		.min_variance = series->min_variance,
	};
	size_t averaged = 0;
	for (size_t i = 0; i < series->run_count; i++)
		averaged += fold_run(series, &series->runs[i], period_hours, ret);
	if (ret->count == 0)
		return false;
	ret->block = series->block * (size_t)round((double)averaged / (double)ret->count);
	return measure_times(ret) && ret->count >= ret->level_count + 2;
}

struct growth_moment growth_data_moment(const struct growth_data *series, size_t first, size_t last)
{
	return (struct growth_moment){ series->points[first > 0 ? first - 1 : 0].hours,
		series->points[last + 1 < series->count ? last + 1 : last].hours };
}

size_t growth_data_run_end(const struct growth_data *series, size_t at)
{
	while (at + 1 < series->count && series->points[at + 1].run == series->points[at].run)
		at++;
	return at + 1;
}

size_t growth_data_run_begin(const struct growth_data *series, size_t at)
{
	while (at > 0 && series->points[at - 1].run == series->points[at].run)
		at--;
	return at;
}

/* Whether its run has at least this number of points up to this one, and after it. */
static bool has_points(const struct growth_data *series, size_t at, size_t before, size_t after)
{
	return at + 1 >= growth_data_run_begin(series, at) + before &&
	       at + 1 + after <= growth_data_run_end(series, at);
}

bool growth_data_may_step(const struct growth_data *series, size_t at)
{
	return has_points(series, at, 1, 2) || has_points(series, at, 3, 1);
}

bool growth_data_may_bend(const struct growth_data *series, size_t at)
{
	return has_points(series, at, 2, 2);
}

double growth_data_min_object_step(const struct growth_data *series)
{
	const double min_objects = 0.75;

	return min_objects * series->min_object;
}

double growth_data_min_step(const struct growth_data *series)
{
	const double min_samples = 2.5;

	return fmax(min_samples * series->weight, growth_data_min_object_step(series));
}
