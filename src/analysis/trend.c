/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/comparison.h"
#include "analysis/trend_sites.h"
#include "base/xalloc.h"

static void set_times(struct trend *trend, const struct series *series)
{
	const struct series_profile *const profiles = series->profiles;
	const size_t count = series->profile_count;
	bool ascends = true;

	for (size_t i = 0; i < count; i++)
		ascends &= profiles[i].time_ms > 0 &&
			   (i == 0 || profiles[i].time_ms > profiles[i - 1].time_ms);
	trend->has_times = ascends;
	trend->first_ms = profiles[0].time_ms;
	trend->last_ms = profiles[count - 1].time_ms;
	for (size_t i = 0; i < count; i++)
		trend->hours[i] =
			ascends ? (double)(profiles[i].time_ms - profiles[0].time_ms) / 3.6e6
				: (double)i;
}

static bool is_same_run(const struct series *series, size_t i, size_t j)
{
	const struct profile x = series_sketch(series, i), y = series_sketch(series, j);
	const bool is_same = comparison_is_same_run(&x, &y);

	free(x.samples);
	free(y.samples);
	return is_same;
}

/*
 * Where another process begins: none of those before it may come back, or two heaps in turn would
 * look like one that swings. `begins` has the first profile of each process.
 */
static bool begin_process(const struct series *series, size_t at, size_t *begins,
	size_t *process_count, struct error *err)
{
	for (size_t i = 0; i < *process_count; i++) {
		if (!is_same_run(series, begins[i], at))
			continue;
		error_set(err, ERROR_USAGE,
			"%.80s and %.80s are of one process, %.80s between them is of another: "
			"they ran at the same time",
			series->profiles[begins[i]].name, series->profiles[at].name,
			series->profiles[at - 1].name);
		return error_hint(err, "give the profiles of one of them");
	}
	begins[(*process_count)++] = at;
	return true;
}

static bool set_runs(struct trend *trend, const struct series *series, struct error *err)
{
	const size_t count = series->profile_count;
	CLEANUP(free_cleanup) size_t *begins = xcalloc(count, sizeof *begins);
	size_t process_count = 1;
	struct profile before = series_sketch(series, 0);
	bool is_fine = true;

	for (size_t i = 1; i < count && is_fine; i++) {
		const struct profile now = series_sketch(series, i);
		const struct comparison step = comparison_of(&before, &now);
		/* Another interval discards what was sampled, or is of another process. */
		const bool was_reset = step.was_reset || step.intervals_differ;
		is_fine =
			!step.is_other_run || begin_process(series, i, begins, &process_count, err);
		trend->runs[i] = trend->runs[i - 1] + (step.is_other_run || was_reset);
		trend->reset_count += !step.is_other_run && was_reset;
		free(before.samples);
		before = now;
	}
	free(before.samples);
	trend->process_count = process_count;
	return is_fine;
}

static void fit_site(const struct trend *trend, struct trend_site *site)
{
	CLEANUP(free_cleanup)
	struct growth_point *points = xcalloc(trend->profile_count, sizeof *points);

	for (size_t i = 0; i < trend->profile_count; i++)
		points[i] = (struct growth_point){ trend->hours[i], site->series[i].value,
			site->series[i].variance, trend->runs[i] };
	site->has_growth = growth_fit(points, trend->profile_count, &site->objects, &site->growth);
	site->adjusted_p = 1;
}

static bool is_constant(const struct trend *trend, const struct trend_site *site)
{
	for (size_t i = 1; i < trend->profile_count; i++) {
		if (site->series[i].value != site->series[0].value)
			return false;
	}
	return true;
}

/* How sure it is that the site changed at all; smaller is surer. */
static double surprise(const struct trend_site *site)
{
	if (!site->has_growth)
		return 2;
	switch (site->growth.kind) {
	case GROWTH_STEADY:
		return site->growth.p;
	case GROWTH_JUMP:
	case GROWTH_CYCLE:
		return TREND_LEVEL;
	case GROWTH_FALL:
		return TREND_LEVEL + 1 - site->growth.p;
	case GROWTH_NONE:
		break;
	}
	return 1;
}

static double latest(const struct trend *trend, const struct trend_site *site)
{
	return site->series[trend->profile_count - 1].value;
}

static int by_surprise(const void *a, const void *b, void *context)
{
	const struct trend_site *const x = a, *const y = b;
	const double left = surprise(x), right = surprise(y);

	if (left != right)
		return (left > right) - (left < right);
	const double x_now = latest(context, x), y_now = latest(context, y);
	return (x_now < y_now) - (x_now > y_now);
}

/* Holm's step-down rule over all sites that were looked at, in ascending order of p. */
static void name_suspects(struct trend *trend)
{
	size_t tests = 0;
	double adjusted = 0;

	qsort_r(trend->sites, trend->site_count, sizeof *trend->sites, by_surprise, trend);
	for (size_t i = 0; i < trend->site_count; i++)
		tests += trend->sites[i].has_growth && !is_constant(trend, &trend->sites[i]);
	for (size_t i = 0; i < trend->site_count; i++) {
		struct trend_site *const site = &trend->sites[i];
		if (!site->has_growth || site->growth.kind != GROWTH_STEADY)
			break;
		adjusted = fmax(adjusted, site->growth.p * (double)(tests - i));
		site->adjusted_p = fmin(adjusted, 1);
		site->is_suspect = adjusted <= TREND_LEVEL;
	}
}

bool trend_build(const struct series *series, const struct trend_request *request,
	struct trend **ret, struct error *err)
{
	const size_t count = series->profile_count;
	CLEANUP(trend_cleanup) struct trend *trend = xcalloc(1, sizeof *trend);

	trend->profile_count = count;
	trend->hours = xcalloc(count, sizeof *trend->hours);
	trend->runs = xcalloc(count, sizeof *trend->runs);
	trend->total.series = xcalloc(count, sizeof(struct estimate));
	trend->total.name = "total";
	trend->total.stack = "";
	set_times(trend, series);
	if (!set_runs(trend, series, err) || !trend_sites_make(trend, series, request, err))
		return false;
	for (size_t i = 0; i < trend->site_count; i++)
		fit_site(trend, &trend->sites[i]);
	fit_site(trend, &trend->total);
	name_suspects(trend);
	*ret = TAKE(trend);
	return true;
}

void trend_free(struct trend *trend)
{
	if (trend == NULL)
		return;
	for (size_t i = 0; i < trend->site_count; i++)
		free(trend->sites[i].series);
	free(trend->sites);
	free(trend->total.series);
	free(trend->hours);
	free(trend->runs);
	view_free(trend->view);
	free(trend);
}

const char *trend_site_kind(const struct trend_site *site)
{
	if (!site->has_growth)
		return "unknown";
	switch (site->growth.kind) {
	case GROWTH_NONE:
		return "none";
	case GROWTH_STEADY:
		return "steady";
	case GROWTH_JUMP:
		return "jump";
	case GROWTH_CYCLE:
		return "cycle";
	case GROWTH_FALL:
		return "falling";
	}
	return "";
}
