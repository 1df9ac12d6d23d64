/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/comparison.h"
#include "base/buffer.h"
#include "base/xalloc.h"

/* Tested sites: the largest over all profiles. The choice does not depend on growth. */
enum { MAX_SITES = 2000 };

#define NO_PATH UINT32_MAX

/* Where the lines of all profiles are in the view. */
struct site_records {
	const struct series *series;
	uint32_t **paths; /* for each shared profile: for each stack its path, or NO_PATH */
};

/* What one line of one profile added to a path. */
struct site_record {
	uint32_t path;
	uint32_t input;
	struct estimate estimate;
	double allocated; /* recorded objects, ever; 0 when unknown */
};

/* Calls `take` with each line that has a path, profile by profile. */
static void for_each_record(const struct site_records *records,
	void (*take)(void *context, const struct site_record *record), void *context)
{
	const struct series *const series = records->series;

	for (size_t i = 0; i < series->profile_count; i++) {
		const struct series_profile *const profile = &series->profiles[i];
		const uint32_t *const paths = records->paths[profile->shared];
		for (size_t j = 0; j < profile->line_count; j++) {
			const struct series_line *const line = &profile->lines[j];
			const struct site_record record = { paths[line->stack], (uint32_t)i,
				{ .value = line->value,
					.variance = line->variance,
					.samples = (double)line->objects },
				profile->allocated == NULL ? 0 : profile->allocated[j] };
			if (record.path != NO_PATH)
				take(context, &record);
		}
	}
}

static void observe(void *observer, size_t input, uint32_t stack, uint32_t path,
	const struct estimate *estimates)
{
	struct site_records *const records = observer;

	(void)estimates;
	records->paths[input][stack] = path;
}

static void records_init(struct site_records *records, const struct series *series)
{
	records->series = series;
	records->paths = xcalloc(series->shared_count, sizeof *records->paths);
	for (size_t i = 0; i < series->shared_count; i++) {
		const size_t count = series->shared[i]->stack_count;
		records->paths[i] = xreallocarray(NULL, count, sizeof *records->paths[i]);
		for (size_t j = 0; j < count; j++)
			records->paths[i][j] = NO_PATH;
	}
}

static void records_deinit(struct site_records *records)
{
	if (records->paths == NULL)
		return;
	for (size_t i = 0; i < records->series->shared_count; i++)
		free(records->paths[i]);
	free(records->paths);
}

static struct view *build_view(
	struct site_records *records, const struct trend_request *request, struct error *err)
{
	const struct series *const series = records->series;
	CLEANUP(free_cleanup)
	struct view_input *inputs = xcalloc(series->shared_count, sizeof *inputs);
	struct view_request asked = request->view;
	struct view *view = NULL;

	for (size_t i = 0; i < series->shared_count; i++)
		inputs[i].profile = series->shared[i];
	asked.counter = series->counter;
	asked.observe = observe;
	asked.observer = records;
	return view_build(inputs, series->shared_count, &asked, &view, err) ? view : NULL;
}

/* The text of a path, from the root: "main > serve > parse". */
static const char *path_text(struct view *view, uint32_t at)
{
	const struct view_path *const path = &view->paths[at];
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	for (uint32_t i = 0; i < path->depth; i++) {
		if (i != 0)
			buffer_append_string(&text, " > ");
		buffer_append_string(&text, view->nodes[view->path_nodes[path->first + i]].name);
	}
	if (path->depth == 0)
		buffer_append_string(&text, "(no stack)");
	return string_pool_add_sized(&view->strings, text.data, text.size);
}

/* Which units a path counts for, and the callback for them. */
struct unit_map {
	const struct view *view;
	enum trend_unit unit;
	void (*add)(void *context, uint32_t unit, const struct site_record *record);
	void *context;
};

static size_t unit_count(const struct view *view, enum trend_unit unit)
{
	return unit == TREND_STACKS ? view->path_count : view->node_count;
}

/* Tells each unit of the path of a record, each once. */
static void take_units(void *context, const struct site_record *record)
{
	const struct unit_map *const map = context;
	const struct view_path *const path = &map->view->paths[record->path];
	const uint32_t *const nodes = map->view->path_nodes + path->first;

	if (map->unit == TREND_STACKS) {
		map->add(map->context, record->path, record);
	} else if (map->unit == TREND_FLAT) {
		if (path->depth > 0)
			map->add(map->context, nodes[path->depth - 1], record);
	} else {
		for (uint32_t i = 0; i < path->depth; i++) {
			bool is_again = false;
			for (uint32_t j = 0; j < i && !is_again; j++)
				is_again = nodes[j] == nodes[i];
			if (!is_again)
				map->add(map->context, nodes[i], record);
		}
	}
}

/* Calls `add` with each record and each unit that it counts for. */
static void for_each_unit(const struct trend *trend, enum trend_unit unit,
	const struct site_records *records,
	void (*add)(void *context, uint32_t unit, const struct site_record *record), void *context)
{
	struct unit_map map = { trend->view, unit, add, context };

	for_each_record(records, take_units, &map);
}

struct unit_size {
	double value;
	uint32_t unit;
};

static void add_size(void *context, uint32_t unit, const struct site_record *record)
{
	((struct unit_size *)context)[unit].value += record->estimate.value;
}

static int by_size(const void *a, const void *b)
{
	const struct unit_size *const x = a, *const y = b;

	return (x->value < y->value) - (x->value > y->value);
}

struct site_map {
	struct trend *trend;
	uint32_t *sites; /* for each unit its site plus one; 0 for none */
};

/* Sums, for the time being: see finish_site. */
static void add_objects(
	const struct trend *trend, const struct site_record *record, struct growth_objects *objects)
{
	const size_t at = record->input;
	const struct estimate *const estimate = &record->estimate;

	if (trend->is_warm_up[at])
		return;
	objects->weight += estimate->samples > 0
				   ? estimate->value * estimate->value / estimate->samples
				   : estimate->variance;
	const double each = estimate->samples > 0 ? estimate->value / estimate->samples : 0;
	if (each > 0 && (objects->min_weight == 0 || each < objects->min_weight))
		objects->min_weight = each;
	objects->live += estimate->samples;
	if (at == 0 || trend->runs[at - 1] != trend->runs[at] || trend->is_warm_up[at - 1])
		objects->arrivals -= record->allocated;
	if (at + 1 == trend->profile_count || trend->runs[at + 1] != trend->runs[at])
		objects->arrivals += record->allocated;
}

static void add_to_site(
	const struct trend *trend, const struct site_record *record, struct trend_site *site)
{
	estimate_add(&site->series[record->input], record->estimate);
	add_objects(trend, record, &site->objects);
}

static void add_to_series(void *context, uint32_t unit, const struct site_record *record)
{
	const struct site_map *const map = context;

	if (map->sites[unit] != 0)
		add_to_site(map->trend, record, &map->trend->sites[map->sites[unit] - 1]);
}

static void add_to_total(void *context, const struct site_record *record)
{
	struct trend *const trend = context;

	add_to_site(trend, record, &trend->total);
}

static void finish_site(
	const struct trend *trend, const struct series *series, struct trend_site *site)
{
	double sum = 0;

	site->objects.has_arrivals = true;
	for (size_t i = 0; i < trend->profile_count; i++) {
		sum += site->series[i].value;
		site->objects.has_arrivals &= series->profiles[i].allocated != NULL;
	}
	site->objects.weight = sum > 0 ? site->objects.weight / sum : 0;
	site->objects.live /= (double)trend->profile_count;
}

/* How each path changed from the first third to the last. */
struct path_changes {
	size_t profile_count;
	double *values;
};

static void add_to_change(void *context, const struct site_record *record)
{
	const struct path_changes *const changes = context;
	const size_t third = (changes->profile_count + 2) / 3;

	if (record->input < third)
		changes->values[record->path] -= record->estimate.value;
	if (record->input >= changes->profile_count - third)
		changes->values[record->path] += record->estimate.value;
}

struct stack_choice {
	const struct site_map *map;
	const double *changes;
	uint32_t *best; /* for each site its path plus one */
};

static void choose_stack(void *context, uint32_t unit, const struct site_record *record)
{
	const struct stack_choice *const choice = context;
	const uint32_t site = choice->map->sites[unit];

	if (site == 0)
		return;
	uint32_t *const best = &choice->best[site - 1];
	if (*best == 0 || choice->changes[record->path] > choice->changes[*best - 1])
		*best = record->path + 1;
}

static void name_sites(struct trend *trend, const struct site_records *records,
	enum trend_unit unit, const struct site_map *map, const struct unit_size *sizes)
{
	CLEANUP(free_cleanup)
	double *values = xcalloc(trend->view->path_count, sizeof *values);
	CLEANUP(free_cleanup) uint32_t *best = xcalloc(trend->site_count, sizeof *best);
	struct path_changes changes = { trend->profile_count, values };
	struct stack_choice choice = { map, values, best };

	for_each_record(records, add_to_change, &changes);
	for_each_unit(trend, unit, records, choose_stack, &choice);
	for (size_t i = 0; i < trend->site_count; i++) {
		struct trend_site *const site = &trend->sites[i];
		site->stack = best[i] == 0 ? "" : path_text(trend->view, best[i] - 1);
		site->name =
			unit == TREND_STACKS ? site->stack : trend->view->nodes[sizes[i].unit].name;
	}
}

/* One series for each of the biggest units. */
static void make_sites(
	struct trend *trend, const struct site_records *records, enum trend_unit unit)
{
	const size_t count = unit_count(trend->view, unit);
	CLEANUP(free_cleanup) struct unit_size *sizes = xcalloc(count, sizeof *sizes);
	CLEANUP(free_cleanup) uint32_t *sites = xcalloc(count, sizeof *sites);
	struct site_map map = { trend, sites };

	for (uint32_t i = 0; i < count; i++)
		sizes[i].unit = i;
	for_each_unit(trend, unit, records, add_size, sizes);
	qsort(sizes, count, sizeof *sizes, by_size);
	while (trend->site_count < count && trend->site_count < MAX_SITES &&
		sizes[trend->site_count].value > 0) {
		sites[sizes[trend->site_count].unit] = (uint32_t)trend->site_count + 1;
		trend->site_count++;
	}
	for (size_t i = trend->site_count; i < count; i++)
		trend->left_out += sizes[i].value > 0;
	trend->sites = xcalloc(trend->site_count, sizeof *trend->sites);
	for (size_t i = 0; i < trend->site_count; i++)
		trend->sites[i].series = xcalloc(trend->profile_count, sizeof(struct estimate));
	for_each_unit(trend, unit, records, add_to_series, &map);
	for_each_record(records, add_to_total, trend);
	for (size_t i = 0; i < trend->site_count; i++)
		finish_site(trend, records->series, &trend->sites[i]);
	finish_site(trend, records->series, &trend->total);
	name_sites(trend, records, unit, &map, sizes);
}

/* The view, the sites with their names and series, and the series of the total; runs are known. */
static bool build_sites(struct trend *trend, const struct series *series,
	const struct trend_request *request, struct error *err)
{
	CLEANUP(records_deinit) struct site_records records = { 0 };

	records_init(&records, series);
	trend->view = build_view(&records, request, err);
	if (trend->view == NULL)
		return false;
	make_sites(trend, &records, request->unit);
	return true;
}

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

static bool lacks_counts(const struct series *series)
{
	bool is_heap = false;

	for (size_t i = 0; i < series->profile_count; i++) {
		if (series->profiles[i].has_allocated)
			return false;
		is_heap |= series->shared[series->profiles[i].shared]->kind == PROFILE_HEAP;
	}
	return is_heap && series->counter >= PROFILE_ALLOC_OBJECTS;
}

static bool is_same_run(const struct series *series, size_t i, size_t j)
{
	const struct profile x = series_allocations(series, i), y = series_allocations(series, j);
	const bool is_same = comparison_is_same_run(&x, &y);

	free(x.samples);
	free(y.samples);
	return is_same;
}

/* Two processes for sure; in containers several have the same. */
static bool pids_differ(const struct series *series, size_t i, size_t j)
{
	const int64_t x = series->profiles[i].pid, y = series->profiles[j].pid;

	return x != 0 && y != 0 && x != y;
}

/*
 * Where another process begins: none of those before it may come back, or two heaps in turn would
 * look like one that swings. `begins` has the first profile of each process.
 */
static bool begin_process(const struct series *series, size_t at, size_t *begins,
	size_t *process_count, struct error *err)
{
	for (size_t i = 0; i < *process_count; i++) {
		if (pids_differ(series, begins[i], at) || !is_same_run(series, begins[i], at))
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

/* Where times are not known there is no telling. */
static void set_warm_up(struct trend *trend, const struct series *series)
{
	enum { WARM_UP_SHARE = 3 };
	const struct series_profile *const profiles = series->profiles;

	trend->attached_ms = profiles[trend->profile_count - 1].attached_ms;
	for (size_t i = trend->profile_count, last = i; trend->has_times && i-- > 0;) {
		const int64_t attached_ms = profiles[i].attached_ms;
		if (last == trend->profile_count || profiles[last].attached_ms != attached_ms)
			last = i;
		trend->is_warm_up[i] =
			attached_ms != 0 && (profiles[i].time_ms - attached_ms) * WARM_UP_SHARE <
						    profiles[last].time_ms - attached_ms;
		trend->warm_up_count += trend->is_warm_up[i];
	}
}

static bool set_runs(struct trend *trend, const struct series *series, struct error *err)
{
	const size_t count = series->profile_count;
	CLEANUP(free_cleanup) size_t *begins = xcalloc(count, sizeof *begins);
	size_t process_count = 1;
	struct profile before = series_allocations(series, 0);
	bool is_fine = true;

	for (size_t i = 1; i < count && is_fine; i++) {
		const struct profile now = series_allocations(series, i);
		const struct comparison step = comparison_of(&before, &now);
		const bool is_other_run = step.is_other_run || pids_differ(series, i - 1, i);
		const bool was_attached_anew = !is_other_run && step.was_attached_anew;
		/* Another interval discards what was sampled, or is of another process. */
		const bool was_reset =
			!was_attached_anew && (step.was_reset || step.intervals_differ);
		is_fine = !is_other_run || begin_process(series, i, begins, &process_count, err);
		trend->runs[i] =
			trend->runs[i - 1] + (is_other_run || was_reset || was_attached_anew);
		trend->attach_count += was_attached_anew;
		trend->reset_count += !is_other_run && was_reset;
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
	size_t count = 0;

	for (size_t i = 0; i < trend->profile_count; i++) {
		if (!trend->is_warm_up[i])
			points[count++] = (struct growth_point){ trend->hours[i],
				site->series[i].value, site->series[i].variance, trend->runs[i] };
	}
	site->has_growth =
		!trend->lacks_counts && growth_fit(points, count, &site->objects, &site->growth);
	if (site->has_growth && trend->reset_count == 0 && trend->attach_count == 0)
		growth_add_restarts(points, count, &site->objects, &site->growth);
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
static double change_rank(const struct trend_site *site)
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

static int by_change(const void *a, const void *b, void *context)
{
	const struct trend_site *const x = a, *const y = b;
	const double left = change_rank(x), right = change_rank(y);

	if (left != right)
		return (left > right) - (left < right);
	const double x_now = latest(context, x), y_now = latest(context, y);
	return (x_now < y_now) - (x_now > y_now);
}

/* Holm's step-down rule over all tested sites, in ascending order of p. */
static void name_suspects(struct trend *trend)
{
	size_t tests = 0;
	double adjusted = 0;

	qsort_r(trend->sites, trend->site_count, sizeof *trend->sites, by_change, trend);
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
	trend->is_warm_up = xcalloc(count, sizeof *trend->is_warm_up);
	trend->total.series = xcalloc(count, sizeof(struct estimate));
	trend->total.name = "total";
	trend->total.stack = "";
	trend->lacks_counts = lacks_counts(series);
	set_times(trend, series);
	set_warm_up(trend, series);
	if (!set_runs(trend, series, err) || !build_sites(trend, series, request, err))
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
	free(trend->is_warm_up);
	view_free(trend->view);
	free(trend);
}

const char *trend_site_kind(const struct trend_site *site)
{
	if (!site->has_growth)
		return "unknown";
	switch (site->growth.kind) {
	case GROWTH_NONE:
		return site->growth.may_be_step ? "undecided" : "none";
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
