/* SPDX-License-Identifier: Apache-2.0 */

#include <math.h>
#include <string.h>

#include "base/xalloc.h"
#include "render/flame_columns.h"
#include "render/renderers.h"

#include "unit.h"

static char *column_of(const int64_t *values, size_t count, bool is_signed)
{
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	for (size_t i = 0; i < count; i++) {
		if (is_signed)
			number_column_append_signed(&out, values[i]);
		else
			number_column_append(&out, (uint64_t)values[i]);
	}
	return buffer_take(&out);
}

static uint32_t add_node(struct view *view, const char *name)
{
	return view_add_node(view,
		&(struct view_node){
			.name = name, .function = name, .file = "a.c", .module = "m", .line = 3 });
}

static void add_path(struct view *view, const uint32_t *nodes, size_t depth, double bytes)
{
	struct view_path *const path = view_add_path(view, nodes, depth);

	path->now[PROFILE_INUSE_SPACE] = (struct estimate){ bytes, 9, 2 };
	view->total[PROFILE_INUSE_SPACE] += bytes;
}

static char *cut_data_of(const struct view *view, size_t frame_limit, const char *root)
{
	struct render_options options = RENDER_OPTIONS_DEFAULT;
	struct error err = { 0 };
	struct buffer out;

	options.frame_limit = frame_limit;
	options.frame_root = root;
	buffer_init(&out, &memory_or_exit);
	assert_true(render_flame_data(view, &options, &out, &err));
	return buffer_take(&out);
}

static char *data_of(const struct view *view)
{
	struct error err = { 0 };
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	assert_true(render_flame_data(view, &RENDER_OPTIONS_DEFAULT, &out, &err));
	return buffer_take(&out);
}

static void writes_numbers_as_runs_of_digits(void **state)
{
	(void)state;
	const int64_t values[] = { 0, 31, 32, 1023, 1024 }, around_zero[] = { 0, -1, 1, -16 };
	CLEANUP(free_cleanup) char *column = column_of(values, 5, false);
	CLEANUP(free_cleanup) char *signed_column = column_of(around_zero, 4, true);
	CLEANUP(free_cleanup) char *largest = column_of((const int64_t[]){ -1 }, 1, false);
	assert_string_equal(column, "AfgB/fggB");
	assert_string_equal(signed_column, "ABCf");
	assert_string_equal(largest, "////////////P");
}

static void writes_paths_as_one_tree(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);
	const uint32_t a = add_node(view, "a"), b = add_node(view, "b<c>\"");
	view->title = "t";
	add_path(view, (uint32_t[]){ a, b, b }, 3, 40);
	add_path(view, (uint32_t[]){ a }, 1, 7);
	add_path(view, (uint32_t[]){ b }, 1, 1);
	CLEANUP(free_cleanup) char *text = data_of(view);
	assert_contains(text, "\"title\":\"t\"");
	assert_contains(text, "\"strings\":[\"b\\u003cc>\\\"\",\"a.c\",\"m\",\"a\"]");
	assert_contains(text, "\"nodes\":{\"count\":2,\"name\":\"AD\",\"file\":\"BB\","
			      "\"module\":\"CC\",\"line\":\"DD\",\"inlined\":\"AA\"}");
	assert_contains(text, "\"frames\":{\"count\":4,\"node\":\"BAAA\",\"up\":\"AAAD\"}");
	assert_contains(text, "\"leaves\":{\"count\":3,\"distance\":\"BCB\"}");
	assert_contains(text,
		"\"name\":\"inuse_space\",\"label\":\"space in use\",\"unit\":"
		"\"bytes\",\"scale\":1,\"total\":48,\"base_total\":0,\"now\":\"OwCC\","
		"\"error\":\"DDD\",\"samples\":\"CCC\"}],\"shown\":0");
}

/* a(100) calls b(60) and c(30), which calls d(20); a has 10 of its own. */
static struct view *branching_view(void)
{
	struct view *const view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);
	const uint32_t a = add_node(view, "a"), b = add_node(view, "b"), c = add_node(view, "c"),
		       d = add_node(view, "d");

	add_path(view, (uint32_t[]){ a }, 1, 10);
	add_path(view, (uint32_t[]){ a, b }, 2, 60);
	add_path(view, (uint32_t[]){ a, c }, 2, 10);
	add_path(view, (uint32_t[]){ a, c, d }, 3, 20);
	return view;
}

static void keeps_the_largest_frames_and_the_sum_of_the_others(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = branching_view();
	CLEANUP(free_cleanup) char *whole = cut_data_of(view, 4, NULL);
	CLEANUP(free_cleanup) char *text = cut_data_of(view, 2, NULL);
	assert_null(strstr(whole, "\"cut\""));
	assert_contains(whole, "\"frames\":{\"count\":4,");
	/* a, b, and c with d as the rest: 10, 30 and 60, doubled for the sign. */
	assert_contains(text, "[smaller ones]");
	assert_contains(text, "\"cut\":{\"stacks\":4,\"functions\":4,\"node\":");
	assert_contains(text, "\"frames\":{\"count\":3,");
	assert_contains(text, "\"now\":\"U8B4D\"");
}

static void the_figures_of_all_functions_stay_what_they_are(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = branching_view();
	CLEANUP(free_cleanup) char *text = cut_data_of(view, 1, NULL);
	/* By their use: a, then those that the table shows, whose frames are left out. */
	assert_contains(text, "\"strings\":[\"a\",\"a.c\",\"m\",");
	assert_contains(text, "\"callers\":{\"frames\":");
	assert_contains(text, "\"flat\":{\"now\":\"");
	assert_contains(text, "\"cumulative\":{\"now\":\"");
}

static void keeps_more_below_the_root_that_is_named(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = branching_view();
	CLEANUP(free_cleanup) char *below = cut_data_of(view, 2, "callees\na\nc");
	CLEANUP(free_cleanup) char *missing = cut_data_of(view, 2, "callees\na\nzzz");
	CLEANUP(free_cleanup) char *callers = cut_data_of(view, 2, "callers\nd");
	/* All four, c and d because of the root. */
	assert_contains(below, "\"frames\":{\"count\":4,");
	assert_contains(missing, "\"frames\":{\"count\":4,");
	assert_contains(callers, "\"callers\":{\"frames\":{\"count\":");
}

static void leaves_out_counters_without_values_and_keeps_the_shown_one(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);
	view->counter = PROFILE_ALLOC_SPACE;
	const uint32_t a = add_node(view, "a");
	add_path(view, &a, 1, 7);
	CLEANUP(free_cleanup) char *text = data_of(view);
	assert_contains(text, "alloc_space");
	assert_contains(text, "\"shown\":1");
	assert_null(strstr(text, "_objects"));
}

static void keeps_base_and_now_of_a_difference(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);
	const uint32_t a = add_node(view, "a");
	view->is_difference = true;
	add_path(view, &a, 1, 7);
	view_path_base(view, &view->paths[0])[PROFILE_INUSE_SPACE].value = 5;
	CLEANUP(free_cleanup) char *text = data_of(view);
	assert_contains(text, "\"now\":\"O\"");
	assert_contains(text, "\"base\":\"K\"");
}

static void says_what_other_profiles_count(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = view_new(PROFILE_CONTENTION, VIEW_FUNCTIONS);
	const uint32_t a = add_node(view, "a");
	add_path(view, &a, 1, 7);
	CLEANUP(free_cleanup) char *text = data_of(view);
	assert_contains(text, "\"label\":\"time waited\",\"unit\":\"nanoseconds\"");
}

static void gives_a_path_without_frames_a_frame(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);
	add_path(view, NULL, 0, 7);
	CLEANUP(free_cleanup) char *text = data_of(view);
	assert_contains(text, "\"[no stack]\"");
	assert_contains(text, "\"frames\":{\"count\":1,\"node\":\"A\",\"up\":\"A\"}");
}

static void writes_no_number_that_is_none(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);
	const uint32_t a = add_node(view, "a");
	add_path(view, &a, 1, NAN);
	view->paths[0].now[PROFILE_INUSE_SPACE].variance = INFINITY;
	CLEANUP(free_cleanup) char *text = data_of(view);
	assert_null(strstr(text, "\"now\""));
	assert_contains(text, "\"error\":\"ggggggggggI\"");
}

static void the_page_cannot_be_left_by_a_name(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);
	struct error err;
	struct buffer out;
	view->title = "</title><script>alert(1)</script>&";
	const uint32_t a = add_node(view, "</script><script>alert(2)</script>");
	add_path(view, &a, 1, 7);
	buffer_init(&out, &memory_or_exit);
	assert_true(renderer_find("flame")->render(view, &RENDER_OPTIONS_DEFAULT, &out, &err));
	CLEANUP(free_cleanup) char *text = buffer_take(&out);
	assert_contains(
		text, "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp; - flame");
	assert_null(strstr(text, "<script>alert"));
	assert_contains(text, "default-src 'none'");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(writes_numbers_as_runs_of_digits),
	cmocka_unit_test(writes_paths_as_one_tree),
	cmocka_unit_test(keeps_the_largest_frames_and_the_sum_of_the_others),
	cmocka_unit_test(the_figures_of_all_functions_stay_what_they_are),
	cmocka_unit_test(keeps_more_below_the_root_that_is_named),
	cmocka_unit_test(leaves_out_counters_without_values_and_keeps_the_shown_one),
	cmocka_unit_test(keeps_base_and_now_of_a_difference),
	cmocka_unit_test(says_what_other_profiles_count),
	cmocka_unit_test(gives_a_path_without_frames_a_frame),
	cmocka_unit_test(writes_no_number_that_is_none),
	cmocka_unit_test(the_page_cannot_be_left_by_a_name),
};
UNIT_MAIN(tests)
