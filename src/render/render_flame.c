/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON that the flame graph's script reads (render_flame_data). The HTML page (render_flame)
 * contains it; the gateway serves it alone.
 *
 * Paths that begin alike share their beginning: a *frame* is a place in that tree. Columns of
 * numbers are strings, because a hundred thousand frames have to be small and quick to read:
 * each number is a run of base64 digits, five bits in each, lowest first, the sixth bit set in
 * all but the last. A signed number has its sign in the lowest bit.
 *
 *	strings      texts
 *	nodes        name, file, module (in strings), line, inlined: one number per node each
 *	frames       in the order of a walk, parents first: node, and up: how many levels above the
 *	             frame before it the new frame's parent is (0: that frame is the parent)
 *	leaves       the frames that have values of their own, as distances
 *	counters     for each leaf: now and base (signed), error and base_error (standard errors),
 *	             samples; all but samples multiplied by the counter's scale
 *
 * Any thread.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_writer.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "render/assets.h"
#include "render/quantity.h"
#include "render/renderers.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void number_column_append(struct buffer *out, uint64_t value)
{
	char text[13];
	size_t length = 0;

	while (value >= 32) {
		text[length++] = digits[32 | (value & 31)];
		value >>= 5;
	}
	text[length++] = digits[value];
	buffer_append(out, text, length);
}

void number_column_append_signed(struct buffer *out, int64_t value)
{
	number_column_append(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

/* Values beyond this are not exact in the script's numbers. */
#define MAX_NUMBER 9007199254740992.0 /* 2^53 */

/* Objects are estimates with fractions; bytes are whole. */
enum { COUNT_SCALE = 100 };

enum column {
	COLUMN_NODE,
	COLUMN_UP,
	COLUMN_LEAF,
	COLUMNS,
};

/* The tree as it is written. */
struct flame_walk {
	const struct view *view;
	uint32_t *order;      /* paths, so that those that begin alike are neighbours */
	uint32_t *uses;	      /* of each node of the view, in frames; one more for "no stack" */
	uint32_t *numbers;    /* of each node of the view, in the output */
	uint32_t *used_nodes; /* the other way round: most used first */
	size_t used_count;
	size_t frame_count;
	size_t since_leaf; /* frames since the last one with values */
	struct buffer columns[COLUMNS];
};

static int compare_paths(const void *a, const void *b, void *context)
{
	const struct view *const view = context;
	const struct view_path *const x = &view->paths[*(const uint32_t *)a];
	const struct view_path *const y = &view->paths[*(const uint32_t *)b];
	const uint32_t *const x_nodes = view->path_nodes + x->first;
	const uint32_t *const y_nodes = view->path_nodes + y->first;
	const uint32_t depth = x->depth < y->depth ? x->depth : y->depth;

	for (uint32_t i = 0; i < depth; i++) {
		if (x_nodes[i] != y_nodes[i])
			return x_nodes[i] < y_nodes[i] ? -1 : 1;
	}
	return (x->depth > y->depth) - (x->depth < y->depth);
}

static uint32_t *sort_paths(const struct view *view)
{
	uint32_t *const order = xreallocarray(NULL, view->path_count, sizeof *order);

	for (size_t i = 0; i < view->path_count; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, view->path_count, sizeof *order, compare_paths, (void *)(uintptr_t)view);
	return order;
}

/* A path without frames is shown as one frame of an extra node. */
static const uint32_t *path_nodes(const struct flame_walk *walk, const struct view_path *path,
	const uint32_t *none, size_t *depth)
{
	*depth = path->depth == 0 ? 1 : path->depth;
	return path->depth == 0 ? none : walk->view->path_nodes + path->first;
}

static size_t common_length(const uint32_t *a, size_t a_size, const uint32_t *b, size_t b_size)
{
	size_t i = 0;

	while (i < a_size && i < b_size && a[i] == b[i])
		i++;
	return i;
}

typedef void frame_function(struct flame_walk *walk, uint32_t node, size_t up, bool is_leaf);

static void walk_frames(struct flame_walk *walk, frame_function *visit)
{
	const uint32_t none = (uint32_t)walk->view->node_count;
	const uint32_t *previous = NULL;
	size_t previous_depth = 0;

	for (size_t i = 0; i < walk->view->path_count; i++) {
		size_t depth = 0;
		const struct view_path *const path = &walk->view->paths[walk->order[i]];
		const uint32_t *const nodes = path_nodes(walk, path, &none, &depth);
		const size_t common = common_length(previous, previous_depth, nodes, depth);
		for (size_t at = common; at < depth; at++)
			visit(walk, nodes[at], at == common ? previous_depth - common : 0,
				at + 1 == depth);
		previous = nodes;
		previous_depth = depth;
	}
}

static void count_frame(struct flame_walk *walk, uint32_t node, size_t up, bool is_leaf)
{
	(void)up;
	(void)is_leaf;
	walk->uses[node]++;
}

static void write_frame(struct flame_walk *walk, uint32_t node, size_t up, bool is_leaf)
{
	number_column_append(&walk->columns[COLUMN_NODE], walk->numbers[node]);
	number_column_append(&walk->columns[COLUMN_UP], up);
	walk->frame_count++;
	walk->since_leaf++;
	if (is_leaf) {
		number_column_append(&walk->columns[COLUMN_LEAF], walk->since_leaf);
		walk->since_leaf = 0;
	}
}

static int compare_uses(const void *a, const void *b, void *context)
{
	const uint32_t *const uses = context;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (uses[x] != uses[y])
		return uses[x] < uses[y] ? 1 : -1;
	return (x > y) - (x < y);
}

/* The most used get the smallest numbers, which are the shortest. */
static void number_nodes(struct flame_walk *walk)
{
	const size_t count = walk->view->node_count + 1;

	walk->used_nodes = xreallocarray(NULL, count, sizeof *walk->used_nodes);
	for (size_t i = 0; i < count; i++) {
		if (walk->uses[i] > 0)
			walk->used_nodes[walk->used_count++] = (uint32_t)i;
	}
	qsort_r(walk->used_nodes, walk->used_count, sizeof *walk->used_nodes, compare_uses,
		walk->uses);
	walk->numbers = xcalloc(count, sizeof *walk->numbers);
	for (size_t i = 0; i < walk->used_count; i++)
		walk->numbers[walk->used_nodes[i]] = (uint32_t)i;
}

static void walk_init(struct flame_walk *walk, const struct view *view)
{
	*walk = (struct flame_walk){ .view = view };
	for (size_t i = 0; i < COLUMNS; i++)
		buffer_init(&walk->columns[i], &memory_or_exit);
	walk->order = sort_paths(view);
	walk->uses = xcalloc(view->node_count + 1, sizeof *walk->uses);
	walk_frames(walk, count_frame);
	number_nodes(walk);
	walk_frames(walk, write_frame);
}

static void walk_deinit(struct flame_walk *walk)
{
	for (size_t i = 0; i < COLUMNS; i++)
		buffer_deinit(&walk->columns[i]);
	free(walk->order);
	free(walk->uses);
	free(walk->numbers);
	free(walk->used_nodes);
}

static void member_column(struct json_writer *json, const char *key, const struct buffer *column)
{
	json_key(json, key);
	json_put_string_sized(json, column->data == NULL ? "" : column->data, column->size);
}

static void write_strings(struct json_writer *json, const struct text_numbers *strings)
{
	json_member_array(json, "strings");
	for (size_t i = 0; i < strings->count; i++)
		json_put_string(json, strings->texts[i]);
	json_array_end(json);
}

static const struct view_node *used_node(const struct flame_walk *walk, size_t i)
{
	static const struct view_node no_stack = {
		.name = "[no stack]",
		.function = "",
		.file = "",
		.module = "",
	};
	const uint32_t node = walk->used_nodes[i];

	return node == walk->view->node_count ? &no_stack : &walk->view->nodes[node];
}

enum node_column {
	NODE_NAME,
	NODE_FILE,
	NODE_MODULE,
	NODE_LINE,
	NODE_INLINED,
	NODE_COLUMNS,
};

static void write_nodes(struct json_writer *json, const struct flame_walk *walk)
{
	static const char *const keys[NODE_COLUMNS] = { "name", "file", "module", "line",
		"inlined" };
	CLEANUP(text_numbers_deinit) struct text_numbers texts = { 0 };
	struct buffer columns[NODE_COLUMNS];

	for (size_t i = 0; i < NODE_COLUMNS; i++)
		buffer_init(&columns[i], &memory_or_exit);
	for (size_t i = 0; i < walk->used_count; i++) {
		const struct view_node *const node = used_node(walk, i);
		number_column_append(&columns[NODE_NAME], text_numbers_add(&texts, node->name));
		number_column_append(&columns[NODE_FILE], text_numbers_add(&texts, node->file));
		number_column_append(&columns[NODE_MODULE], text_numbers_add(&texts, node->module));
		number_column_append(&columns[NODE_LINE], node->line);
		number_column_append(&columns[NODE_INLINED], node->is_inlined);
	}
	write_strings(json, &texts);
	json_member_object(json, "nodes");
	json_member_unsigned(json, "count", walk->used_count);
	for (size_t i = 0; i < NODE_COLUMNS; i++) {
		member_column(json, keys[i], &columns[i]);
		buffer_deinit(&columns[i]);
	}
	json_object_end(json);
}

static void write_frames(struct json_writer *json, const struct flame_walk *walk)
{
	json_member_object(json, "frames");
	json_member_unsigned(json, "count", walk->frame_count);
	member_column(json, "node", &walk->columns[COLUMN_NODE]);
	member_column(json, "up", &walk->columns[COLUMN_UP]);
	json_object_end(json);
	json_member_object(json, "leaves");
	json_member_unsigned(json, "count", walk->view->path_count);
	member_column(json, "distance", &walk->columns[COLUMN_LEAF]);
	json_object_end(json);
}

static int64_t whole_number(double value)
{
	if (isnan(value))
		return 0;
	return llround(fmax(-MAX_NUMBER, fmin(MAX_NUMBER, value)));
}

/* One column of a counter; left out when it is zero all over. */
struct value_column {
	const char *key;
	bool of_base;
	enum { VALUE, ERROR, SAMPLES } part;
};

static const struct value_column value_columns[] = {
	{ "now", false, VALUE },
	{ "error", false, ERROR },
	{ "samples", false, SAMPLES },
	{ "base", true, VALUE },
	{ "base_error", true, ERROR },
	{ "base_samples", true, SAMPLES },
};

static void write_value_column(struct json_writer *json, const struct flame_walk *walk,
	enum profile_counter counter, const struct value_column *column, int scale)
{
	CLEANUP(buffer_deinit) struct buffer numbers = BUFFER_OR_EXIT;
	bool is_empty = true;

	for (size_t i = 0; i < walk->view->path_count; i++) {
		const struct view_path *const path = &walk->view->paths[walk->order[i]];
		const struct estimate *const estimate =
			column->of_base ? &path->base[counter] : &path->now[counter];
		const double value = column->part == VALUE   ? estimate->value * scale
				     : column->part == ERROR ? sqrt(estimate->variance) * scale
							     : estimate->samples;
		const int64_t number = whole_number(value);
		if (column->part == VALUE)
			number_column_append_signed(&numbers, number);
		else
			number_column_append(&numbers, (uint64_t)(number < 0 ? 0 : number));
		is_empty &= number == 0;
	}
	if (!is_empty)
		member_column(json, column->key, &numbers);
}

static void write_counter(
	struct json_writer *json, const struct flame_walk *walk, enum profile_counter counter)
{
	static const char *const units[] = { [QUANTITY_COUNT] = "count",
		[QUANTITY_BYTES] = "bytes",
		[QUANTITY_TIME] = "nanoseconds" };
	const struct view *const view = walk->view;
	const enum quantity_style style = quantity_style_of(view->kind, counter, false);
	const int scale = style == QUANTITY_COUNT ? COUNT_SCALE : 1;

	json_object_begin(json);
	json_member_string(json, "name", profile_counter_names[counter]);
	json_member_string(json, "label", quantity_label(view, counter));
	json_member_string(json, "unit", units[style]);
	json_member_integer(json, "scale", scale);
	json_member_real(json, "total", view->total[counter]);
	json_member_real(json, "base_total", view->base_total[counter]);
	for (size_t i = 0; i < sizeof value_columns / sizeof value_columns[0]; i++) {
		if (view->is_difference || !value_columns[i].of_base)
			write_value_column(json, walk, counter, &value_columns[i], scale);
	}
	json_object_end(json);
}

static bool has_counter(const struct view *view, enum profile_counter counter)
{
	return counter == view->counter || view->total[counter] != 0 ||
	       (view->is_difference && view->base_total[counter] != 0);
}

static void write_counters(struct json_writer *json, const struct flame_walk *walk)
{
	static const enum profile_counter order[] = { PROFILE_INUSE_SPACE, PROFILE_INUSE_OBJECTS,
		PROFILE_ALLOC_SPACE, PROFILE_ALLOC_OBJECTS };
	unsigned shown = 0, count = 0;

	json_member_array(json, "counters");
	for (size_t i = 0; i < PROFILE_COUNTERS; i++) {
		if (!has_counter(walk->view, order[i]))
			continue;
		if (order[i] == walk->view->counter)
			shown = count;
		write_counter(json, walk, order[i]);
		count++;
	}
	json_array_end(json);
	json_member_unsigned(json, "shown", shown);
}

bool render_flame_data(const struct view *view, const struct render_options *options,
	struct buffer *out, struct error *err)
{
	struct json_writer json;
	CLEANUP(walk_deinit) struct flame_walk walk = { 0 };

	(void)err;
	walk_init(&walk, view);
	json_init(&json, out);
	json_object_begin(&json);
	json_member_integer(&json, "version", 1);
	json_member_string(&json, "title", view->title);
	json_member_string(&json, "subtitle", view->subtitle);
	json_member_string(&json, "sampling", view->sampling);
	json_member_unsigned(&json, "interval_bytes", view->interval_bytes);
	json_member_bool(&json, "is_difference", view->is_difference);
	json_member_bool(&json, "is_inverted", options->is_inverted);
	write_nodes(&json, &walk);
	write_frames(&json, &walk);
	write_counters(&json, &walk);
	json_object_end(&json);
	return true;
}

bool render_flame(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	const char *const title = view->title[0] == '\0' ? "heap profile" : view->title;

	buffer_append_string(out, flame_page_head);
	utf8_append_markup(out, title, strlen(title));
	buffer_append_string(out, view->is_difference ? " - what changed" : " - flame graph");
	buffer_append_string(out, flame_page_middle);
	const bool is_written = render_flame_data(view, options, out, err);
	buffer_append_string(out, flame_page_tail);
	return is_written;
}
