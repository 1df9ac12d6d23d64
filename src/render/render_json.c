/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole view as JSON, or rows of a table of it, every figure with its error;
 * docs/report-json.md describes both.
 */
#include "render/renderers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/filter.h"
#include "analysis/unsample.h"
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "render/quantity.h"

static const char *kind_name(enum profile_kind kind)
{
	switch (kind) {
	case PROFILE_HEAP:
		return "heap";
	case PROFILE_GROWTH:
		return "growth";
	case PROFILE_CPU:
		return "cpu";
	case PROFILE_CONTENTION:
		return "contention";
	}
	return "";
}

/* One estimate; in a difference of the two sides. */
static void write_estimate(struct json_writer *json, const struct view *view, const char *key,
	struct estimate now, struct estimate base)
{
	const struct estimate shown = view->is_difference ? estimate_difference(now, base) : now;
	struct interval interval = view->is_difference ? estimate_difference_interval(now, base)
						       : estimate_interval(now);
	double standard_error = sqrt(shown.variance);

	/* Written as null. */
	if (view->lacks_errors)
		standard_error = interval.low = interval.high = NAN;

	json_member_object(json, key);
	json_member_real(json, "value", shown.value);
	json_member_real(json, "standard_error", standard_error);
	json_member_real(json, "samples", shown.samples);
	json_member_array(json, "interval95");
	json_put_real(json, interval.low);
	json_put_real(json, interval.high);
	json_array_end(json);
	if (view->is_difference) {
		json_member_real(json, "now", now.value);
		json_member_real(json, "base", base.value);
	}
	json_object_end(json);
}

static void write_node(struct json_writer *json, const struct view *view,
	const struct view_node *node, const struct view_totals *now, const struct view_totals *base)
{
	json_object_begin(json);
	json_member_string(json, "name", node->name);
	json_member_string(json, "function", node->function);
	json_member_string(json, "file", node->file);
	json_member_unsigned(json, "line", node->line);
	json_member_string(json, "module", node->module);
	if (node->address != 0)
		json_member_unsigned(json, "address", node->address);
	json_member_bool(json, "inlined", node->is_inlined);
	write_estimate(json, view, "flat", now->flat, base->flat);
	write_estimate(json, view, "cumulative", now->cumulative, base->cumulative);
	json_object_end(json);
}

static void write_nodes(struct json_writer *json, const struct view *view)
{
	CLEANUP(free_cleanup)
	struct view_totals *now = view_sum_side(view, view->counter, false);
	CLEANUP(free_cleanup)
	struct view_totals *base = view_sum_side(view, view->counter, true);

	json_member_array(json, "nodes");
	for (size_t i = 0; i < view->node_count; i++) {
		write_node(json, view, &view->nodes[i], &now[i], &base[i]);
		buffer_drain(json->out);
	}
	json_array_end(json);
}

/* Which counters mean something: a profile without prof_accum has no allocated ones. */
static void find_counters(const struct view *view, bool has[PROFILE_COUNTERS])
{
	for (int c = 0; c < PROFILE_COUNTERS; c++)
		has[c] = view->total[c] != 0 || view->base_total[c] != 0;
	has[view->counter] = true;
}

static void write_paths(struct json_writer *json, const struct view *view)
{
	bool has[PROFILE_COUNTERS];

	find_counters(view, has);
	json_member_array(json, "paths");
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		json_object_begin(json);
		json_member_array(json, "nodes");
		for (uint32_t at = 0; at < path->depth; at++)
			json_put_unsigned(json, view->path_nodes[path->first + at]);
		json_array_end(json);
		for (int c = 0; c < PROFILE_COUNTERS; c++) {
			if (has[c])
				write_estimate(json, view, profile_counter_names[c], path->now[c],
					path->base[c]);
		}
		json_object_end(json);
		buffer_drain(json->out);
	}
	json_array_end(json);
}

static void write_total(struct json_writer *json, const struct view *view)
{
	struct estimate now = { 0 };
	struct estimate base = { 0 };

	for (size_t i = 0; i < view->path_count; i++) {
		estimate_add(&now, view->paths[i].now[view->counter]);
		estimate_add(&base, view->paths[i].base[view->counter]);
	}
	write_estimate(json, view, "total", now, base);
	json_member_real(json, "unfiltered_total",
		view->total[view->counter] - view->base_total[view->counter]);
}

static void write_head(struct json_writer *json, const struct view *view)
{
	const struct render_options exact = { .show_bytes = true };

	json_member_integer(json, "version", 1);
	json_member_string(json, "program", view->title);
	json_member_string(json, "source", view->subtitle);
	json_member_string(json, "kind", kind_name(view->kind));
	json_member_string(json, "granularity", view_granularity_names[view->granularity]);
	json_member_string(json, "counter", profile_counter_names[view->counter]);
	json_member_string(json, "unit", jeprof_value_unit(view, &exact));
	json_key(json, "sample_interval_bytes");
	if (view->lacks_errors && view->interval_bytes == 0)
		json_put_null(json);
	else
		json_put_unsigned(json, view->interval_bytes);
	json_member_string(json, "sampling", view->sampling);
	json_member_integer_or_null(json, "attached_ms", view->attached_ms);
	json_member_bool(json, "difference", view->is_difference);
	write_total(json, view);
}

bool render_json(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	struct json_writer json;

	(void)options;
	(void)err;
	json_init(&json, out);
	json_object_begin(&json);
	write_head(&json, view);
	write_nodes(&json, view);
	write_paths(&json, view);
	json_object_end(&json);
	buffer_append_char(out, '\n');
	return true;
}

/* Rows of a table: the nodes in order. */
struct row_sort {
	const struct view *view;
	const struct view_totals *now, *base;
	enum render_sort key;
};

static double row_value(const struct row_sort *sort, uint32_t node)
{
	const bool is_cumulative = sort->key == RENDER_SORT_CUMULATIVE;
	const struct estimate *const now =
		is_cumulative ? &sort->now[node].cumulative : &sort->now[node].flat;
	const struct estimate *const base =
		is_cumulative ? &sort->base[node].cumulative : &sort->base[node].flat;

	return sort->view->is_difference ? fabs(now->value - base->value) : now->value;
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct row_sort *const sort = context;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (sort->key != RENDER_SORT_NAME) {
		const double left = row_value(sort, x), right = row_value(sort, y);
		if (left != right)
			return left < right ? 1 : -1;
		const double all = sort->now[x].cumulative.value;
		const double others = sort->now[y].cumulative.value;
		if (all != others)
			return all < others ? 1 : -1;
	}
	const int order = strcmp(sort->view->nodes[x].name, sort->view->nodes[y].name);
	return order != 0 ? order : (x > y) - (x < y);
}

static bool has_figures(const struct row_sort *sort, uint32_t node)
{
	return sort->now[node].cumulative.value != 0 || sort->base[node].cumulative.value != 0;
}

/* Those with figures that match, in order. */
static bool pick_rows(
	struct row_sort *sort, const char *text, uint32_t *rows, size_t *count, struct error *err)
{
	CLEANUP(pattern_cleanup) struct pattern *pattern = NULL;

	*count = 0;
	if (text != NULL && !pattern_new(text, &pattern, err))
		return false;
	for (uint32_t i = 0; i < sort->view->node_count; i++) {
		const struct view_node *const node = &sort->view->nodes[i];
		if (has_figures(sort, i) &&
			(pattern == NULL || pattern_matches(pattern, node->name) ||
				pattern_matches(pattern, node->file)))
			rows[(*count)++] = i;
	}
	qsort_r(rows, *count, sizeof *rows, compare_rows, sort);
	return pattern_check(pattern, err);
}

bool render_rows(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	CLEANUP(free_cleanup)
	struct view_totals *now = view_sum_side(view, view->counter, false);
	CLEANUP(free_cleanup)
	struct view_totals *base = view_sum_side(view, view->counter, true);
	struct row_sort sort = { view, now, base, options->sort };
	CLEANUP(free_cleanup)
	uint32_t *rows = xreallocarray(NULL, view->node_count + 1, sizeof *rows);
	struct json_writer json;
	size_t count = 0;

	if (!pick_rows(&sort, options->row_pattern, rows, &count, err))
		return false;
	const size_t first = options->first_row < count ? options->first_row : count;
	const size_t limit = options->line_limit == 0 ? count : options->line_limit;
	const size_t end = limit < count - first ? first + limit : count;
	json_init(&json, out);
	json_object_begin(&json);
	write_head(&json, view);
	json_member_real(&json, "whole", view_whole(view, view->counter));
	json_member_unsigned(&json, "count", count);
	json_member_unsigned(&json, "first", first);
	json_member_array(&json, "rows");
	for (size_t i = first; i < end; i++)
		write_node(&json, view, &view->nodes[rows[i]], &now[rows[i]], &base[rows[i]]);
	json_array_end(&json);
	json_object_end(&json);
	buffer_append_char(out, '\n');
	return true;
}
