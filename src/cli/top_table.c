/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/terminal.h"
#include "render/quantity.h"

/* Half the width of a 95% interval, in standard errors. */
static const double INTERVAL = 1.96;

static double growth(const struct top_item *item)
{
	return item->bytes.value - item->base_bytes;
}

/*
 * As if no object were in both profiles: what stayed was sampled once, so that the error is this at
 * most. A site that did not change at all is the same samples.
 */
static double growth_error(struct estimate now, double base_bytes, double base_variance)
{
	return now.value == base_bytes ? 0 : INTERVAL * sqrt(now.variance + base_variance);
}

static int descending(double x, double y)
{
	return (x < y) - (x > y);
}

static int by_bytes(const void *a, const void *b)
{
	const struct top_item *const x = a, *const y = b;
	const int order = descending(x->bytes.value, y->bytes.value);

	return order != 0 ? order : strcmp(x->name, y->name);
}

static int by_growth(const void *a, const void *b)
{
	const int order = descending(growth(a), growth(b));

	return order != 0 ? order : by_bytes(a, b);
}

static int by_objects(const void *a, const void *b)
{
	const struct top_item *const x = a, *const y = b;
	const int order = descending(x->objects, y->objects);

	return order != 0 ? order : by_bytes(a, b);
}

static int (*const orders[])(const void *, const void *) = {
	[TOP_BY_BYTES] = by_bytes,
	[TOP_BY_GROWTH] = by_growth,
	[TOP_BY_OBJECTS] = by_objects,
};

void top_table_line(struct buffer *out, size_t columns, const char *text)
{
	size_t left = strlen(text);

	for (size_t column = 0; left > 0 && (columns == 0 || column < columns); column++) {
		size_t size = utf8_length(text, left);
		if (size != 0 && utf8_is_printable(text, size))
			buffer_append(out, text, size);
		else
			buffer_append_char(out, '?');
		size = size == 0 ? 1 : size;
		text += size;
		left -= size;
	}
	buffer_append_char(out, '\n');
}

static struct quantity_text bytes_text(double bytes, bool is_change)
{
	return quantity_format(QUANTITY_BYTES, bytes, is_change);
}

static void write_styled(
	struct buffer *out, size_t columns, enum terminal_style style, const char *text)
{
	CLEANUP(buffer_deinit) struct buffer line = BUFFER_OR_EXIT;

	top_table_line(&line, columns, text);
	buffer_append_string(out, terminal_begin(stdout, style));
	buffer_append(out, line.data, line.size - 1);
	buffer_append_string(out, terminal_end(stdout));
	buffer_append_char(out, '\n');
}

/* A terminal that is narrower than this has no room for every column beside names. */
enum { WIDE_COLUMNS = 100 };

static bool is_narrow(const struct top_table *table)
{
	return table->columns != 0 && table->columns < WIDE_COLUMNS;
}

/* The columns before the names, in their order. */
enum site_column {
	SITE_BYTES,
	SITE_BYTES_ERROR,
	SITE_GROWTH,
	SITE_GROWTH_ERROR,
	SITE_OBJECTS,
	SITE_COLUMNS
};

/* "1023.9 MiB", the same with a sign, objects by the million. */
static const int site_widths[SITE_COLUMNS] = { 10, 10, 11, 10, 11 };

/* In the order of use by what is sorted by: the names get the room of the last ones first. */
static const enum site_column columns_by_use[][SITE_COLUMNS] = {
	[TOP_BY_BYTES] = { SITE_BYTES, SITE_BYTES_ERROR, SITE_GROWTH, SITE_GROWTH_ERROR,
		SITE_OBJECTS },
	[TOP_BY_GROWTH] = { SITE_GROWTH, SITE_GROWTH_ERROR, SITE_BYTES, SITE_BYTES_ERROR,
		SITE_OBJECTS },
	[TOP_BY_OBJECTS] = { SITE_OBJECTS, SITE_BYTES, SITE_BYTES_ERROR, SITE_GROWTH,
		SITE_GROWTH_ERROR },
};

/* Of a name, for each column before it. */
enum { NAME_COLUMNS = 12, NAME_COLUMNS_MORE = 8, GAP = 2 };

/*
 * The first is always there. Growth is not to be judged without its error, so both are shown or
 * neither; unless it is what is sorted by, and there is no room.
 */
static void choose_columns(const struct top_table *table, bool is_shown[SITE_COLUMNS])
{
	const enum site_column *const by_use = columns_by_use[table->order];
	int used = 0;

	for (int i = 0; i < SITE_COLUMNS; i++) {
		const enum site_column column = by_use[i];
		const int name = NAME_COLUMNS + NAME_COLUMNS_MORE * (i - 1);
		const bool has_pair = i > 1 && column == SITE_GROWTH_ERROR;
		int needed = site_widths[column] + 1;
		if (column == SITE_GROWTH)
			needed += site_widths[SITE_GROWTH_ERROR] + 1;
		if (table->columns != 0 && i > 0 && !has_pair &&
			used + needed + GAP + name > (int)table->columns)
			return;
		is_shown[column] = true;
		used += site_widths[column] + 1;
	}
}

static char *format_row(
	const struct top_table *table, const char *const columns[SITE_COLUMNS], const char *name)
{
	CLEANUP(buffer_deinit) struct buffer row = BUFFER_OR_EXIT;
	bool is_shown[SITE_COLUMNS] = { false };
	const char *before = "";

	choose_columns(table, is_shown);
	for (int i = 0; i < SITE_COLUMNS; i++) {
		if (!is_shown[i])
			continue;
		buffer_printf(&row, "%s%*s", before, site_widths[i], columns[i]);
		before = " ";
	}
	buffer_printf(&row, "  %s", name);
	return buffer_take(&row);
}

/* What the figure is of: " by the profile", or " allocated since the attach 12 min ago". */
static void describe_attach(
	const struct top_table *table, const struct top_snapshot *snapshot, char *text, size_t size)
{
	char age[DURATION_TEXT_BYTES];

	snprintf(text, size, "%s", is_narrow(table) ? "" : " by the profile");
	if (snapshot->attached_ms != 0 && snapshot->attached_ms <= snapshot->time_ms)
		snprintf(text, size, "%s since the attach %s ago",
			is_narrow(table) ? "" : " allocated",
			duration_format(snapshot->time_ms - snapshot->attached_ms, age));
}

/* "on", of a tree "on in 2 of 3 processes, 1 left out", or "on in 2 of 3, 1 left out" */
static void describe_sampling(
	const struct top_snapshot *snapshot, const char *processes, char *text, size_t size)
{
	const bool is_tree = snapshot->pid == 0 && snapshot->process_count > 0;
	char left_out[48] = "";

	if (!is_tree) {
		snprintf(text, size, "%s", snapshot->is_sampling ? "on" : "off");
		return;
	}
	if (snapshot->left_out_count > 0)
		snprintf(left_out, sizeof left_out, ", %zu left out", snapshot->left_out_count);
	snprintf(text, size, "on in %zu of %zu%s%s", snapshot->active_count,
		snapshot->process_count, processes, left_out);
}

const char *top_table_choose(size_t columns, const char *const texts[], size_t count)
{
	size_t i = 0;

	while (i + 1 < count && columns != 0 && strlen(texts[i]) > columns)
		i++;
	return texts[i];
}

static void write_state(
	const struct top_table *table, const struct top_snapshot *snapshot, struct buffer *out)
{
	char moment[CONTROL_TIME_BYTES], sampling[96], shorter[96];

	describe_sampling(snapshot, " processes", sampling, sizeof sampling);
	describe_sampling(snapshot, "", shorter, sizeof shorter);
	CLEANUP(free_cleanup)
	char *rest = xasprintf("%s%s%s", table->is_frozen ? "  FROZEN" : "",
		*table->filter == '\0' ? "" : "  only ", table->filter);
	CLEANUP(free_cleanup) char *state = xasprintf("sampling is %s%s", sampling, rest);
	CLEANUP(free_cleanup)
	char *whole = xasprintf(
		"%s  %s  %s", table->label, control_format_time(snapshot->time_ms, moment), state);
	CLEANUP(free_cleanup) char *narrow = xasprintf("%s  %s", table->label, state);
	CLEANUP(free_cleanup) char *narrower = xasprintf("%s  %s%s", table->label, shorter, rest);
	const char *const texts[] = { whole, narrow, narrower };

	write_styled(out, table->columns, TERMINAL_BOLD,
		top_table_choose(table->columns, texts, sizeof texts / sizeof *texts));
}

static void write_totals(
	const struct top_table *table, const struct top_snapshot *snapshot, struct buffer *out)
{
	char attach[64], moment[CONTROL_TIME_BYTES];

	describe_attach(table, snapshot, attach, sizeof attach);
	CLEANUP(free_cleanup)
	char *in_use = xasprintf("in use %s +-%s", bytes_text(snapshot->bytes.value, false).text,
		bytes_text(INTERVAL * sqrt(snapshot->bytes.variance), false).text);
	CLEANUP(free_cleanup)
	char *grown = xasprintf("%s +-%s",
		bytes_text(snapshot->bytes.value - snapshot->base_bytes, true).text,
		bytes_text(growth_error(
				   snapshot->bytes, snapshot->base_bytes, snapshot->base_variance),
			false)
			.text);
	CLEANUP(free_cleanup) char *timeless = xasprintf("%s%s, %s", in_use, attach, grown);
	CLEANUP(free_cleanup)
	char *whole =
		xasprintf("%s since %s", timeless, control_format_time(snapshot->base_ms, moment));
	CLEANUP(free_cleanup) char *narrow = xasprintf("%s, %s", in_use, grown);
	const char *const texts[] = { whole, timeless, narrow, in_use };

	top_table_line(out, table->columns,
		top_table_choose(table->columns, texts, sizeof texts / sizeof *texts));
}

static void write_statistics(
	const struct top_table *table, const struct top_snapshot *snapshot, struct buffer *out)
{
	CLEANUP(free_cleanup)
	char *figures = xasprintf("allocated %s, resident %s",
		bytes_text((double)snapshot->allocated_bytes, false).text,
		bytes_text((double)snapshot->resident_bytes, false).text);
	CLEANUP(free_cleanup) char *whole = xasprintf("%s by jemalloc's count", figures);
	CLEANUP(free_cleanup)
	char *resident =
		xasprintf("resident %s", bytes_text((double)snapshot->resident_bytes, false).text);
	const char *const known[] = { whole, figures, resident };
	const char *const unknown[] = {
		snapshot->process_count > 1 ? "no statistics: no process uses jemalloc"
					    : "no statistics: the process does not use jemalloc",
		"no statistics: jemalloc is not used", "jemalloc is not used"
	};

	top_table_line(out, table->columns,
		top_table_choose(
			table->columns, snapshot->resident_bytes == 0 ? unknown : known, 3));
}

static void write_heading(
	const struct top_table *table, const struct top_snapshot *snapshot, struct buffer *out)
{
	static const char *const whats[] = { [TOP_SITES] = "SITE (innermost functions)",
		[TOP_THREADS] = "THREAD",
		[TOP_PROCESSES] = "PROCESS" };

	if (table->heading_rows == 0)
		return;
	if (table->heading_rows > 1)
		write_state(table, snapshot, out);
	if (table->heading_rows > 2)
		write_totals(table, snapshot, out);
	if (table->heading_rows > 3)
		write_statistics(table, snapshot, out);
	const char *const headings[SITE_COLUMNS] = { table->order == TOP_BY_BYTES ? "IN USE*"
										  : "IN USE",
		"+-", table->order == TOP_BY_GROWTH ? "GROWTH*" : "GROWTH", "+-",
		table->order == TOP_BY_OBJECTS ? "OBJECTS*" : "OBJECTS" };
	CLEANUP(free_cleanup)
	char *row = format_row(table, headings, whats[table->list]);
	CLEANUP(free_cleanup) char *narrow = format_row(table, headings, "SITE");
	const char *const rows[] = { row, narrow };
	write_styled(out, table->columns, TERMINAL_DIM,
		top_table_choose(table->columns, rows, table->list == TOP_SITES ? 2 : 1));
}

static void write_item(
	const struct top_table *table, const struct top_item *item, int depth, struct buffer *out)
{
	const struct quantity_text in_use = bytes_text(item->bytes.value, false);
	const struct quantity_text error = bytes_text(INTERVAL * sqrt(item->bytes.variance), false);
	const struct quantity_text grown = bytes_text(growth(item), true);
	const struct quantity_text grown_error =
		bytes_text(growth_error(item->bytes, item->base_bytes, item->base_variance), false);
	const struct quantity_text objects = quantity_format(QUANTITY_COUNT, item->objects, false);
	const char *const columns[SITE_COLUMNS] = { in_use.text, error.text, grown.text,
		grown_error.text, objects.text };
	CLEANUP(free_cleanup) char *name = xasprintf("%*s%s", 2 * depth, "", item->name);
	CLEANUP(free_cleanup) char *text = format_row(table, columns, name);

	top_table_line(out, table->columns, text);
}

/* The table while it is written. */
struct table_state {
	const struct top_table *table;
	const struct top_items *list;
	bool *is_written; /* of each item; a tree that came from a changing machine may have a loop
			   */
	size_t matching;
	struct buffer *out;
};

static void write_matching(struct table_state *state, size_t at, int depth)
{
	const struct top_table *const table = state->table;
	const struct top_item *const item = &state->list->items[at];

	state->is_written[at] = true;
	if (strcasestr(item->name, table->filter) == NULL)
		return;
	if (state->matching >= table->skip && state->matching - table->skip < table->rows)
		write_item(table, item, depth, state->out);
	state->matching++;
}

static bool has_parent(const struct top_items *list, const struct top_item *item)
{
	for (size_t i = 0; item->parent != 0 && i < list->count; i++) {
		if (list->items[i].pid == item->parent && list->items[i].pid != item->pid)
			return true;
	}
	return false;
}

/* A process, and below it its children. */
static void write_tree(struct table_state *state, size_t at, int depth)
{
	enum { MAX_DEPTH = 16 };
	const struct top_items *const list = state->list;
	const int64_t pid = list->items[at].pid;

	write_matching(state, at, depth);
	for (size_t i = 0; pid != 0 && i < list->count; i++) {
		if (!state->is_written[i] && list->items[i].parent == pid)
			write_tree(state, i, depth < MAX_DEPTH ? depth + 1 : depth);
	}
}

size_t top_table_write(
	const struct top_table *table, struct top_snapshot *snapshot, struct buffer *out)
{
	struct top_items *const list = &snapshot->lists[table->list];
	CLEANUP(free_cleanup) bool *is_written = xcalloc(list->count, sizeof *is_written);
	struct table_state state = { table, list, is_written, 0, out };

	write_heading(table, snapshot, out);
	if (list->count > 0)
		qsort(list->items, list->count, sizeof *list->items, orders[table->order]);
	for (size_t i = 0; table->list == TOP_PROCESSES && i < list->count; i++) {
		if (!has_parent(list, &list->items[i]))
			write_tree(&state, i, 0);
	}
	for (size_t i = 0; i < list->count; i++) {
		if (!is_written[i])
			write_matching(&state, i, 0);
	}
	return state.matching;
}
