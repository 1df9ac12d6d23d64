/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/comparison.h"
#include "base/buffer.h"
#include "base/xalloc.h"

/* Sites that are looked at: the biggest over all profiles. Which ones does not depend on growth. */
enum { MOST_SITES = 2000 };

/* What one line of one profile added to a path. */
struct record {
	uint32_t path;
	uint32_t input;
	struct estimate estimate;
};

struct records {
	struct record *items;
	size_t count, capacity;
	enum profile_counter counter;
};

static void observe(void *observer, size_t input, uint32_t path, const struct estimate *estimates)
{
	struct records *const records = observer;

	records->items = xgrow(
		records->items, &records->capacity, records->count + 1, sizeof *records->items);
	records->items[records->count++] =
		(struct record){ path, (uint32_t)input, estimates[records->counter] };
}

static void records_deinit(struct records *records)
{
	free(records->items);
}

static struct view *build_view(struct profile *const *profiles, size_t count,
	const struct trend_request *request, struct records *records, struct error *err)
{
	CLEANUP(free_cleanup) struct view_input *inputs = xcalloc(count, sizeof *inputs);
	struct view_request asked = request->view;
	struct view *view = NULL;

	for (size_t i = 0; i < count; i++)
		inputs[i].profile = profiles[i];
	records->counter = asked.counter;
	asked.observe = observe;
	asked.observer = records;
	return view_build(inputs, count, &asked, &view, err) ? view : NULL;
}

static void set_times(struct trend *trend, struct profile *const *profiles, size_t count)
{
	bool ascends = true;

	for (size_t i = 0; i < count; i++)
		ascends &= profiles[i]->time_ms > 0 &&
			   (i == 0 || profiles[i]->time_ms > profiles[i - 1]->time_ms);
	trend->has_times = ascends;
	trend->first_ms = profiles[0]->time_ms;
	trend->last_ms = profiles[count - 1]->time_ms;
	for (size_t i = 0; i < count; i++)
		trend->hours[i] =
			ascends ? (double)(profiles[i]->time_ms - profiles[0]->time_ms) / 3.6e6
				: (double)i;
}

/*
 * Where another process begins: none of those before it may come back, or two heaps in turn would
 * look like one that swings. `begins` has the first profile of each process.
 */
static bool begin_process(struct profile *const *profiles, size_t at, size_t *begins,
	size_t *process_count, struct error *err)
{
	for (size_t i = 0; i < *process_count; i++) {
		if (!comparison_is_same_run(profiles[begins[i]], profiles[at]))
			continue;
		error_set(err, ERROR_USAGE,
			"%.80s and %.80s are of one process, %.80s between them is of another: "
			"they ran at the same time",
			profiles[begins[i]]->name, profiles[at]->name, profiles[at - 1]->name);
		return error_hint(err, "give the profiles of one of them");
	}
	begins[(*process_count)++] = at;
	return true;
}

static bool set_runs(
	struct trend *trend, struct profile *const *profiles, size_t count, struct error *err)
{
	CLEANUP(free_cleanup) size_t *begins = xcalloc(count, sizeof *begins);
	size_t processes = 1;

	for (size_t i = 1; i < count; i++) {
		const struct comparison step = comparison_of(profiles[i - 1], profiles[i]);
		if (step.is_other_run && !begin_process(profiles, i, begins, &processes, err))
			return false;
		trend->runs[i] = trend->runs[i - 1] + (step.is_other_run || step.was_reset);
	}
	trend->run_count = trend->runs[count - 1] + 1;
	return true;
}

/* The text of a path, from the root: "main > serve > parse". */
static const char *path_text(struct view *view, uint32_t at)
{
	const struct view_path *const path = &view->paths[at];
	CLEANUP(buffer_cleanup) struct buffer text;

	buffer_init(&text, &memory_or_exit);
	for (uint32_t i = 0; i < path->depth; i++) {
		if (i != 0)
			buffer_append_string(&text, " > ");
		buffer_append_string(&text, view->nodes[view->path_nodes[path->first + i]].name);
	}
	if (path->depth == 0)
		buffer_append_string(&text, "(no stack)");
	return string_pool_add_sized(&view->strings, text.data, text.size);
}

/* Which units a path counts for. */
struct unit_map {
	const struct view *view;
	enum trend_unit unit;
};

static size_t unit_count(const struct unit_map *map)
{
	return map->unit == TREND_STACKS ? map->view->path_count : map->view->node_count;
}

/* Calls `add` with each unit of the path of a record, each once. */
static void for_each_unit(struct unit_map *map, const struct record *record,
	void (*add)(void *context, uint32_t unit, const struct record *record), void *context)
{
	const struct view_path *const path = &map->view->paths[record->path];
	const uint32_t *const nodes = map->view->path_nodes + path->first;

	if (map->unit == TREND_STACKS) {
		add(context, record->path, record);
	} else if (map->unit == TREND_FLAT) {
		if (path->depth > 0)
			add(context, nodes[path->depth - 1], record);
	} else {
		for (uint32_t i = 0; i < path->depth; i++) {
			bool is_again = false;
			for (uint32_t j = 0; j < i && !is_again; j++)
				is_again = nodes[j] == nodes[i];
			if (!is_again)
				add(context, nodes[i], record);
		}
	}
}

struct unit_size {
	double value;
	uint32_t unit;
};

static void add_size(void *context, uint32_t unit, const struct record *record)
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

static void add_to_series(void *context, uint32_t unit, const struct record *record)
{
	const struct site_map *const map = context;

	if (map->sites[unit] != 0)
		estimate_add(&map->trend->sites[map->sites[unit] - 1].series[record->input],
			record->estimate);
}

/* How each path changed from the first third to the last. */
static double *path_changes(const struct trend *trend, const struct records *records)
{
	double *const changes = xcalloc(trend->view->path_count, sizeof *changes);
	const size_t third = (trend->profile_count + 2) / 3;

	for (size_t i = 0; i < records->count; i++) {
		const struct record *const record = &records->items[i];
		if (record->input < third)
			changes[record->path] -= record->estimate.value;
		if (record->input >= trend->profile_count - third)
			changes[record->path] += record->estimate.value;
	}
	return changes;
}

struct stack_choice {
	const struct site_map *map;
	const double *changes;
	uint32_t *best; /* for each site its path plus one */
};

static void choose_stack(void *context, uint32_t unit, const struct record *record)
{
	const struct stack_choice *const choice = context;
	const uint32_t site = choice->map->sites[unit];

	if (site == 0)
		return;
	uint32_t *const best = &choice->best[site - 1];
	if (*best == 0 || choice->changes[record->path] > choice->changes[*best - 1])
		*best = record->path + 1;
}

static void name_sites(struct trend *trend, const struct records *records, struct unit_map *units,
	const struct site_map *map, const struct unit_size *sizes)
{
	CLEANUP(free_cleanup) double *changes = path_changes(trend, records);
	CLEANUP(free_cleanup) uint32_t *best = xcalloc(trend->site_count, sizeof *best);
	struct stack_choice choice = { map, changes, best };

	for (size_t i = 0; i < records->count; i++)
		for_each_unit(units, &records->items[i], choose_stack, &choice);
	for (size_t i = 0; i < trend->site_count; i++) {
		struct trend_site *const site = &trend->sites[i];
		site->stack = best[i] == 0 ? "" : path_text(trend->view, best[i] - 1);
		site->name = units->unit == TREND_STACKS ? site->stack
							 : trend->view->nodes[sizes[i].unit].name;
	}
}

/* One series for each of the biggest units. */
static void make_sites(
	struct trend *trend, const struct records *records, const struct trend_request *request)
{
	struct unit_map units = { .view = trend->view, .unit = request->unit };
	const size_t count = unit_count(&units);
	CLEANUP(free_cleanup) struct unit_size *sizes = xcalloc(count, sizeof *sizes);
	CLEANUP(free_cleanup) uint32_t *sites = xcalloc(count, sizeof *sites);
	struct site_map map = { trend, sites };

	for (uint32_t i = 0; i < count; i++)
		sizes[i].unit = i;
	for (size_t i = 0; i < records->count; i++)
		for_each_unit(&units, &records->items[i], add_size, sizes);
	qsort(sizes, count, sizeof *sizes, by_size);
	while (trend->site_count < count && trend->site_count < MOST_SITES &&
		sizes[trend->site_count].value > 0) {
		sites[sizes[trend->site_count].unit] = (uint32_t)trend->site_count + 1;
		trend->site_count++;
	}
	for (size_t i = trend->site_count; i < count; i++)
		trend->left_out += sizes[i].value > 0;
	trend->sites = xcalloc(trend->site_count, sizeof *trend->sites);
	for (size_t i = 0; i < trend->site_count; i++)
		trend->sites[i].series = xcalloc(trend->profile_count, sizeof(struct estimate));
	for (size_t i = 0; i < records->count; i++) {
		for_each_unit(&units, &records->items[i], add_to_series, &map);
		estimate_add(
			&trend->total.series[records->items[i].input], records->items[i].estimate);
	}
	name_sites(trend, records, &units, &map, sizes);
}

static void fit_site(const struct trend *trend, struct trend_site *site)
{
	CLEANUP(free_cleanup)
	struct growth_point *points = xcalloc(trend->profile_count, sizeof *points);

	for (size_t i = 0; i < trend->profile_count; i++)
		points[i] = (struct growth_point){ trend->hours[i], site->series[i].value,
			site->series[i].variance, trend->runs[i] };
	site->has_growth = growth_fit(points, trend->profile_count, &site->growth);
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

bool trend_build(struct profile *const *profiles, size_t count, const struct trend_request *request,
	struct trend **ret, struct error *err)
{
	CLEANUP(records_deinit) struct records records = { 0 };
	CLEANUP(trend_cleanup) struct trend *trend = NULL;

	struct view *const view = build_view(profiles, count, request, &records, err);
	if (view == NULL)
		return false;
	trend = xcalloc(1, sizeof *trend);
	trend->view = view;
	trend->profile_count = count;
	trend->hours = xcalloc(count, sizeof *trend->hours);
	trend->runs = xcalloc(count, sizeof *trend->runs);
	trend->total.series = xcalloc(count, sizeof(struct estimate));
	trend->total.name = "total";
	trend->total.stack = "";
	set_times(trend, profiles, count);
	if (!set_runs(trend, profiles, count, err))
		return false;
	make_sites(trend, &records, request);
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
