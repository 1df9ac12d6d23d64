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
 * With frame_limit there may be more frames than are wanted (flame_tree.h). Then there are also:
 *
 *	cut          how many stacks and functions the profile has; node: what stands for frames
 *	             that are left out
 *	callers      the tree of callers: frames, leaves, and counters in the order of the others
 *	counters     flat and cumulative of each node, of all its frames
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
#include "render/flame_columns.h"
#include "render/flame_tree.h"
#include "render/quantity.h"
#include "render/renderers.h"

/* Objects are estimates with fractions; bytes are whole. */
enum { COUNT_SCALE = 100 };

/* Rows of the table of functions that are there whatever their frames are. */
enum { FLAME_TABLE_ROWS = 1000 };

enum column {
	COLUMN_NODE,
	COLUMN_UP,
	COLUMN_LEAF,
	COLUMNS,
};

/* What is written, in the order in which it is. */
struct flame_data {
	const struct view *view;
	double *weights; /* of paths: the sum of their shares of each counter */
	struct flame_tree callees, callers;
	bool is_cut;	   /* the trees are not all there is */
	uint32_t *uses;	   /* of each node of the view, in frames; then "no stack" and the rest */
	uint32_t *numbers; /* of each node of the view, in the output */
	uint32_t *used_nodes; /* the other way round: most used first */
	size_t used_count;
};

/* A tree as it is written. */
struct flame_columns {
	const struct flame_data *data;
	size_t frame_count, leaf_count;
	size_t since_leaf; /* frames since the last one with values */
	struct buffer columns[COLUMNS];
	struct value_columns values[PROFILE_COUNTERS];
	enum profile_counter counters[PROFILE_COUNTERS];
	size_t counter_count;
};

static bool has_counter(const struct view *view, enum profile_counter counter)
{
	return counter == view->counter || view->total[counter] != 0 ||
	       (view->is_difference && view->base_total[counter] != 0);
}

static size_t written_counters(
	const struct view *view, enum profile_counter counters[PROFILE_COUNTERS])
{
	static const enum profile_counter order[] = { PROFILE_INUSE_SPACE, PROFILE_INUSE_OBJECTS,
		PROFILE_ALLOC_SPACE, PROFILE_ALLOC_OBJECTS };
	size_t count = 0;

	for (size_t i = 0; i < PROFILE_COUNTERS; i++) {
		if (has_counter(view, order[i]))
			counters[count++] = order[i];
	}
	return count;
}

/* What decides the width of a path's box: in a difference the larger of now and base. */
static double path_size(const struct view_path *path, enum profile_counter counter)
{
	return fmax(0, fmax(path->now[counter].value, path->base[counter].value));
}

static double *weigh_paths(const struct view *view)
{
	double *const weights = xcalloc(view->path_count + 1, sizeof *weights);
	enum profile_counter counters[PROFILE_COUNTERS];
	const size_t count = written_counters(view, counters);

	for (size_t c = 0; c < count; c++) {
		double whole = 0;
		for (size_t i = 0; i < view->path_count; i++)
			whole += path_size(&view->paths[i], counters[c]);
		for (size_t i = 0; whole > 0 && i < view->path_count; i++)
			weights[i] += path_size(&view->paths[i], counters[c]) / whole;
	}
	return weights;
}

static void count_frame(
	void *context, uint32_t node, uint32_t up, const uint32_t *paths, size_t path_count)
{
	struct flame_data *const data = context;

	(void)up;
	(void)paths;
	(void)path_count;
	data->uses[node]++;
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
static void number_nodes(struct flame_data *data)
{
	const size_t count = data->view->node_count + 2;

	data->used_nodes = xreallocarray(NULL, count, sizeof *data->used_nodes);
	for (size_t i = 0; i < count; i++) {
		if (data->uses[i] > 0)
			data->used_nodes[data->used_count++] = (uint32_t)i;
	}
	qsort_r(data->used_nodes, data->used_count, sizeof *data->used_nodes, compare_uses,
		data->uses);
	data->numbers = xcalloc(count, sizeof *data->numbers);
	for (size_t i = 0; i < data->used_count; i++)
		data->numbers[data->used_nodes[i]] = (uint32_t)i;
}

/* A function that is sorted by what it allocates. */
struct ranked_node {
	uint32_t node;
	double size;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked_node *const x = a, *const y = b;

	if (x->size != y->size)
		return x->size < y->size ? 1 : -1;
	return (x->node > y->node) - (x->node < y->node);
}

/* Functions that are scattered over many small frames are large all the same: the table has them.
 */
static void use_largest(struct flame_data *data, const struct view_totals *totals, bool is_flat)
{
	const size_t count = data->view->node_count;
	CLEANUP(free_cleanup) struct ranked_node *ranked = xcalloc(count + 1, sizeof *ranked);

	for (size_t i = 0; i < count; i++)
		ranked[i] = (struct ranked_node){ (uint32_t)i,
			fabs(is_flat ? totals[i].flat.value : totals[i].cumulative.value) };
	qsort(ranked, count, sizeof *ranked, compare_ranked);
	for (size_t i = 0; i < count && i < FLAME_TABLE_ROWS && ranked[i].size > 0; i++)
		data->uses[ranked[i].node]++;
}

static void refine(struct flame_data *data, const struct render_options *options)
{
	static const char callers[] = "callers\n", callees[] = "callees\n";
	const char *const root = options->frame_root;

	if (root == NULL)
		return;
	if (strncmp(root, callers, sizeof callers - 1) == 0)
		flame_tree_refine(&data->callers, root + sizeof callers - 1, options->frame_limit);
	else if (strncmp(root, callees, sizeof callees - 1) == 0)
		flame_tree_refine(&data->callees, root + sizeof callees - 1, options->frame_limit);
}

static void data_init(
	struct flame_data *data, const struct view *view, const struct render_options *options)
{
	*data = (struct flame_data){ .view = view, .weights = weigh_paths(view) };
	flame_tree_init(&data->callees, view, false, data->weights, options->frame_limit);
	data->is_cut = flame_tree_is_cut(&data->callees);
	data->uses = xcalloc(view->node_count + 2, sizeof *data->uses);
	if (data->is_cut) {
		flame_tree_init(&data->callers, view, true, data->weights, options->frame_limit);
		refine(data, options);
		flame_tree_walk(&data->callers, count_frame, data);
		CLEANUP(free_cleanup)
		struct view_totals *totals = view_sum_nodes(view, view->counter);
		use_largest(data, totals, true);
		use_largest(data, totals, false);
	}
	flame_tree_walk(&data->callees, count_frame, data);
	number_nodes(data);
}

static void data_deinit(struct flame_data *data)
{
	flame_tree_deinit(&data->callees);
	if (data->is_cut)
		flame_tree_deinit(&data->callers);
	free(data->weights);
	free(data->uses);
	free(data->numbers);
	free(data->used_nodes);
}

static void write_strings(struct json_writer *json, const struct text_numbers *strings)
{
	json_member_array(json, "strings");
	for (size_t i = 0; i < strings->count; i++)
		json_put_string(json, strings->texts[i]);
	json_array_end(json);
}

static const struct view_node *used_node(const struct flame_data *data, size_t i)
{
	static const struct view_node no_stack = {
		.name = "[no stack]",
		.function = "",
		.file = "",
		.module = "",
	};
	static const struct view_node rest = {
		.name = "[smaller ones]",
		.function = "",
		.file = "",
		.module = "",
	};
	const uint32_t node = data->used_nodes[i];

	return node == flame_no_stack(data->view) ? &no_stack
	       : node == flame_rest(data->view)	  ? &rest
						  : &data->view->nodes[node];
}

enum node_column {
	NODE_NAME,
	NODE_FILE,
	NODE_MODULE,
	NODE_LINE,
	NODE_INLINED,
	NODE_COLUMNS,
};

static void write_nodes(struct json_writer *json, const struct flame_data *data)
{
	static const char *const keys[NODE_COLUMNS] = { "name", "file", "module", "line",
		"inlined" };
	CLEANUP(text_numbers_deinit) struct text_numbers texts = { 0 };
	struct buffer columns[NODE_COLUMNS];

	for (size_t i = 0; i < NODE_COLUMNS; i++)
		buffer_init(&columns[i], &memory_or_exit);
	for (size_t i = 0; i < data->used_count; i++) {
		const struct view_node *const node = used_node(data, i);
		number_column_append(&columns[NODE_NAME], text_numbers_add(&texts, node->name));
		number_column_append(&columns[NODE_FILE], text_numbers_add(&texts, node->file));
		number_column_append(&columns[NODE_MODULE], text_numbers_add(&texts, node->module));
		number_column_append(&columns[NODE_LINE], node->line);
		number_column_append(&columns[NODE_INLINED], node->is_inlined);
	}
	write_strings(json, &texts);
	json_member_object(json, "nodes");
	json_member_unsigned(json, "count", data->used_count);
	for (size_t i = 0; i < NODE_COLUMNS; i++) {
		number_column_write(json, keys[i], &columns[i]);
		buffer_deinit(&columns[i]);
	}
	json_object_end(json);
}

static int scale_of(const struct view *view, enum profile_counter counter)
{
	return quantity_style_of(view->kind, counter, false) == QUANTITY_COUNT ? COUNT_SCALE : 1;
}

static void append_leaf(struct flame_columns *tree, const uint32_t *paths, size_t path_count)
{
	const struct view *const view = tree->data->view;

	number_column_append(&tree->columns[COLUMN_LEAF], tree->since_leaf);
	tree->since_leaf = 0;
	tree->leaf_count++;
	for (size_t c = 0; c < tree->counter_count; c++) {
		const enum profile_counter counter = tree->counters[c];
		struct estimate now = { 0 }, base = { 0 };
		for (size_t i = 0; i < path_count; i++) {
			estimate_add(&now, view->paths[paths[i]].now[counter]);
			estimate_add(&base, view->paths[paths[i]].base[counter]);
		}
		value_columns_append(&tree->values[c], &now, view->is_difference ? &base : NULL,
			scale_of(view, counter));
	}
}

static void append_frame(
	void *context, uint32_t node, uint32_t up, const uint32_t *paths, size_t path_count)
{
	struct flame_columns *const tree = context;

	number_column_append(&tree->columns[COLUMN_NODE], tree->data->numbers[node]);
	number_column_append(&tree->columns[COLUMN_UP], up);
	tree->frame_count++;
	tree->since_leaf++;
	if (path_count > 0)
		append_leaf(tree, paths, path_count);
}

static void columns_init(struct flame_columns *tree, const struct flame_data *data, bool of_callers)
{
	*tree = (struct flame_columns){ .data = data };
	tree->counter_count = written_counters(data->view, tree->counters);
	for (size_t i = 0; i < COLUMNS; i++)
		buffer_init(&tree->columns[i], &memory_or_exit);
	for (size_t i = 0; i < PROFILE_COUNTERS; i++)
		value_columns_init(&tree->values[i]);
	flame_tree_walk(of_callers ? &data->callers : &data->callees, append_frame, tree);
}

static void columns_deinit(struct flame_columns *tree)
{
	for (size_t i = 0; i < COLUMNS; i++)
		buffer_deinit(&tree->columns[i]);
	for (size_t i = 0; i < PROFILE_COUNTERS; i++)
		value_columns_deinit(&tree->values[i]);
}

static void write_frames(struct json_writer *json, const struct flame_columns *tree)
{
	json_member_object(json, "frames");
	json_member_unsigned(json, "count", tree->frame_count);
	number_column_write(json, "node", &tree->columns[COLUMN_NODE]);
	number_column_write(json, "up", &tree->columns[COLUMN_UP]);
	json_object_end(json);
	json_member_object(json, "leaves");
	json_member_unsigned(json, "count", tree->leaf_count);
	number_column_write(json, "distance", &tree->columns[COLUMN_LEAF]);
	json_object_end(json);
}

static void write_callers(struct json_writer *json, const struct flame_data *data)
{
	struct flame_columns tree;

	columns_init(&tree, data, true);
	json_member_object(json, "callers");
	write_frames(json, &tree);
	json_member_array(json, "counters");
	for (size_t c = 0; c < tree.counter_count; c++) {
		json_object_begin(json);
		value_columns_write(json, &tree.values[c]);
		json_object_end(json);
	}
	json_array_end(json);
	json_object_end(json);
	columns_deinit(&tree);
}

/* Stacks without frames have no node that was summed. */
static struct view_totals sum_no_stack(
	const struct view *view, enum profile_counter counter, bool is_base)
{
	struct view_totals sum = { 0 };

	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		if (path->depth == 0)
			estimate_add(&sum.flat, is_base ? path->base[counter] : path->now[counter]);
	}
	sum.cumulative = sum.flat;
	return sum;
}

/* What the nodes have together, which the frames that are left do not say. */
static void write_totals(struct json_writer *json, const struct flame_data *data,
	enum profile_counter counter, bool is_flat)
{
	const struct view *const view = data->view;
	CLEANUP(free_cleanup) struct view_totals *now = view_sum_side(view, counter, false);
	CLEANUP(free_cleanup)
	struct view_totals *base = view->is_difference ? view_sum_side(view, counter, true) : NULL;
	const struct view_totals none = { 0 };
	const struct view_totals no_stack[] = { sum_no_stack(view, counter, false),
		sum_no_stack(view, counter, true) };
	struct value_columns values;

	value_columns_init(&values);
	for (size_t i = 0; i < data->used_count; i++) {
		const uint32_t node = data->used_nodes[i];
		const bool is_node = node < view->node_count;
		const bool is_rest = node == flame_rest(view);
		const struct view_totals *const sum = is_node	? &now[node]
						      : is_rest ? &none
								: &no_stack[0];
		const struct view_totals *const other = is_rest || base == NULL ? &none
							: is_node		? &base[node]
										: &no_stack[1];
		value_columns_append(&values, is_flat ? &sum->flat : &sum->cumulative,
			base == NULL ? NULL
			: is_flat    ? &other->flat
				     : &other->cumulative,
			scale_of(view, counter));
	}
	json_member_object(json, is_flat ? "flat" : "cumulative");
	value_columns_write(json, &values);
	json_object_end(json);
	value_columns_deinit(&values);
}

static void write_counter(struct json_writer *json, const struct flame_data *data,
	enum profile_counter counter, const struct value_columns *values)
{
	static const char *const units[] = { [QUANTITY_COUNT] = "count",
		[QUANTITY_BYTES] = "bytes",
		[QUANTITY_TIME] = "nanoseconds" };
	const struct view *const view = data->view;
	const enum quantity_style style = quantity_style_of(view->kind, counter, false);

	json_object_begin(json);
	json_member_string(json, "name", profile_counter_names[counter]);
	json_member_string(json, "label", quantity_label(view, counter));
	json_member_string(json, "unit", units[style]);
	json_member_integer(json, "scale", scale_of(view, counter));
	json_member_real(json, "total", view->total[counter]);
	json_member_real(json, "base_total", view->base_total[counter]);
	value_columns_write(json, values);
	if (data->is_cut) {
		write_totals(json, data, counter, true);
		write_totals(json, data, counter, false);
	}
	json_object_end(json);
}

static void write_counters(
	struct json_writer *json, const struct flame_data *data, const struct flame_columns *tree)
{
	unsigned shown = 0;

	json_member_array(json, "counters");
	for (size_t c = 0; c < tree->counter_count; c++) {
		if (tree->counters[c] == data->view->counter)
			shown = (unsigned)c;
		write_counter(json, data, tree->counters[c], &tree->values[c]);
	}
	json_array_end(json);
	json_member_unsigned(json, "shown", shown);
}

/* What is left out, where something is. */
static void write_cut(struct json_writer *json, const struct flame_data *data)
{
	json_member_object(json, "cut");
	json_member_unsigned(json, "stacks", data->view->path_count);
	json_member_unsigned(json, "functions", data->view->node_count);
	if (data->uses[flame_rest(data->view)] > 0)
		json_member_unsigned(json, "node", data->numbers[flame_rest(data->view)]);
	json_object_end(json);
}

static void write_data(
	const struct view *view, const struct render_options *options, struct buffer *out)
{
	struct json_writer json;
	struct flame_data data;
	struct flame_columns callees;

	data_init(&data, view, options);
	columns_init(&callees, &data, false);
	json_init(&json, out);
	json_object_begin(&json);
	json_member_integer(&json, "version", 1);
	json_member_string(&json, "title", view->title);
	json_member_string(&json, "subtitle", view->subtitle);
	json_member_string(&json, "sampling", view->sampling);
	json_member_unsigned(&json, "interval_bytes", view->interval_bytes);
	json_member_bool(&json, "is_difference", view->is_difference);
	json_member_bool(&json, "is_inverted", options->is_inverted);
	write_nodes(&json, &data);
	write_frames(&json, &callees);
	if (data.is_cut) {
		write_cut(&json, &data);
		write_callers(&json, &data);
	}
	write_counters(&json, &data, &callees);
	json_object_end(&json);
	columns_deinit(&callees);
	data_deinit(&data);
}

static struct render_options limit_frames(const struct render_options *options, size_t otherwise)
{
	struct render_options limited = *options;

	if (limited.frame_limit == FRAME_LIMIT_DEFAULT)
		limited.frame_limit = otherwise;
	return limited;
}

bool render_flame_data(const struct view *view, const struct render_options *options,
	struct buffer *out, struct error *err)
{
	const struct render_options limited = limit_frames(options, 0);

	(void)err;
	write_data(view, &limited, out);
	return true;
}

bool render_flame(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	const char *const title = view->title[0] == '\0' ? "heap profile" : view->title;
	const struct render_options limited = limit_frames(options, FRAME_LIMIT);

	(void)err;
	buffer_append_string(out, flame_page_head);
	utf8_append_markup(out, title, strlen(title));
	buffer_append_string(out, view->is_difference ? " - what changed" : " - flame graph");
	buffer_append_string(out, flame_page_middle);
	write_data(view, &limited, out);
	buffer_append_string(out, flame_page_tail);
	return true;
}
