/* SPDX-License-Identifier: Apache-2.0 */
/* The textual renderers, on one small view. */
#include "render/renderers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "render/quantity.h"

#include "unit.h"

#define MIB 1048576.0

enum { MAIN, SERVE, PARSE };

static void add(struct view *view, const uint32_t *nodes, size_t depth, double now, double base)
{
	struct view_path *const path = view_add_path(view, nodes, depth);

	path->now[PROFILE_INUSE_SPACE] = (struct estimate){ now, MIB * MIB, 4 };
	view_path_base(view, path)[PROFILE_INUSE_SPACE] = (struct estimate){ .value = base };
	view->total[PROFILE_INUSE_SPACE] += now;
	view->base_total[PROFILE_INUSE_SPACE] += base;
}

static struct view *make_view(double base)
{
	struct view *const view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);

	view_add_node(view, &(struct view_node){ .name = "main", .function = "main" });
	view_add_node(view,
		&(struct view_node){ .name = "serve;x", .function = "serve;x", .file = "/s.c" });
	view_add_node(
		view, &(struct view_node){
			      .name = "parse (inline)", .function = "parse", .is_inlined = true });
	view->title = "server";
	view->is_difference = base != 0;
	add(view, (const uint32_t[]){ MAIN, SERVE, PARSE }, 3, 3 * MIB, base);
	add(view, (const uint32_t[]){ MAIN, SERVE }, 2, 0.9999 * MIB, 0);
	return view;
}

static void assert_view(
	const char *name, struct view *view, struct render_options options, const char *wanted)
{
	struct error err = { 0 };
	struct buffer out;

	options.graph = GRAPH_LIMITS_DEFAULT;
	buffer_init(&out, &memory_or_exit);
	if (!renderer_find(name)->render(view, &options, &out, &err))
		fail_msg("%s", err.message);
	assert_string_equal(buffer_string(&out), wanted);
	buffer_deinit(&out);
	view_free(view);
}

static void assert_output(
	const char *name, double base, struct render_options options, const char *wanted)
{
	assert_view(name, make_view(base), options, wanted);
}

/* With 4 and 8 objects. */
static struct view *make_counted_view(void)
{
	struct view *const view = make_view(0);

	view->paths[0].now[PROFILE_INUSE_OBJECTS].value = 4;
	view->paths[1].now[PROFILE_INUSE_OBJECTS].value = 8;
	view->total[PROFILE_INUSE_OBJECTS] = 12;
	return view;
}

#define OPTIONS(...) ((struct render_options){ __VA_ARGS__ })

static void prints_the_columns_of_jeprof(void **state)
{
	(void)state;
	assert_output("text", 0, OPTIONS(0),
		"Total: 4.0 MB\n"
		"     3.0  75.0%  75.0%      3.0  75.0% parse (inline)\n"
		"     1.0  25.0% 100.0%      4.0 100.0% serve;x\n"
		"     0.0   0.0% 100.0%      4.0 100.0% main\n");
}

static void cuts_bytes_rather_than_rounding_them(void **state)
{
	(void)state;
	/* 0.9999 MiB are 1048471.1424 bytes. */
	assert_output("text", 0, OPTIONS(.show_bytes = true, .line_limit = 2),
		"Total: 4194199 B\n"
		" 3145728  75.0%  75.0%  3145728  75.0% parse (inline)\n"
		" 1048471  25.0% 100.0%  4194199 100.0% serve;x\n");
}

static void shows_the_unit_that_is_asked_for(void **state)
{
	(void)state;
	assert_output("text", 0, OPTIONS(.unit = RENDER_UNIT_KB, .line_limit = 1),
		"Total: 4095.9 KB\n"
		"  3072.0  75.0%  75.0%   3072.0  75.0% parse (inline)\n");
	assert_output("text", 0, OPTIONS(.unit = RENDER_UNIT_B, .line_limit = 1),
		"Total: 4194199 B\n"
		" 3145728  75.0%  75.0%  3145728  75.0% parse (inline)\n");
	/* That of the total; what was asked for by another name is as before. */
	assert_output("tree", 0, OPTIONS(.unit = RENDER_UNIT_AUTO, .show_bytes = true),
		"      MB  share     self\n"
		"     4.0 100.0%      0.0  server\n"
		"     4.0 100.0%      0.0  main\n"
		"     4.0 100.0%      1.0  serve;x\n"
		"     3.0  75.0%      3.0  parse (inline)\n");
}

static void shows_means_with_the_shares_of_the_sums(void **state)
{
	(void)state;
	assert_view("text", make_counted_view(), OPTIONS(.mean = true),
		"Mean of 12: 349516 B\n"
		"  786432  75.0%  75.0%   786432  75.0% parse (inline)\n"
		"  131058  25.0% 100.0%   349516 100.0% serve;x\n"
		"       0   0.0% 100.0%   349516 100.0% main\n");
	assert_view("text", make_counted_view(),
		OPTIONS(.mean = true, .unit = RENDER_UNIT_KB, .line_limit = 1),
		"Mean of 12: 341.3 KB\n"
		"   768.0  75.0%  75.0%    768.0  75.0% parse (inline)\n");
}

static void refuses_units_of_other_figures(void **state)
{
	(void)state;
	struct error err = { 0 };

	assert_true(quantity_check_unit(PROFILE_HEAP, RENDER_UNIT_KB, &err));
	assert_true(quantity_check_unit(PROFILE_HEAP, RENDER_UNIT_AUTO, &err));
	assert_true(quantity_check_unit(PROFILE_CPU, RENDER_UNIT_KB, &err));
	assert_true(quantity_check_unit(PROFILE_CONTENTION, RENDER_UNIT_MS, &err));
	assert_false(quantity_check_unit(PROFILE_HEAP, RENDER_UNIT_MS, &err));
	assert_string_equal(
		err.message, "the unit ms is not one of bytes: use b, kb, mb, gb, tb or auto");
	assert_false(quantity_check_unit(PROFILE_CONTENTION, RENDER_UNIT_KB, &err));
}

static void sorts_by_cumulative_figures_and_by_name(void **state)
{
	(void)state;
	assert_output("text", 0, OPTIONS(.sort = RENDER_SORT_CUMULATIVE, .line_limit = 1),
		"Total: 4.0 MB\n"
		"     0.0   0.0%   0.0%      4.0 100.0% main\n");
	assert_output("text", 0, OPTIONS(.sort = RENDER_SORT_NAME, .line_limit = 1),
		"Total: 4.0 MB\n"
		"     0.0   0.0%   0.0%      4.0 100.0% main\n");
}

static void names_the_thread_in_the_total(void **state)
{
	(void)state;
	assert_output("text", 0, OPTIONS(.thread = "t3", .line_limit = 1),
		"Total (t3): 4.0 MB\n"
		"     3.0  75.0%  75.0%      3.0  75.0% parse (inline)\n");
}

static void shows_errors_and_samples_when_asked(void **state)
{
	(void)state;
	assert_output("text", 0, OPTIONS(.confidence = true, .line_limit = 1),
		"Total: 4.0 MB\n"
		"    flat       +-  flat%   sum%      cum       +-   cum% samples name\n"
		"     3.0      1.0  75.0%  75.0%      3.0      1.0  75.0%       4 parse "
		"(inline)\n");
}

static void never_shows_shares_of_a_difference_above_100(void **state)
{
	(void)state;
	assert_output("text", 4 * MIB, OPTIONS(.sort = RENDER_SORT_CHANGE, .explain = true),
		"Total: -0.0 MB\n"
		"Before: 4.0, now: 4.0, all changes: 2.0 MB (shares are of these)\n"
		"    -1.0 -50.0%  50.0%     -1.0 -50.0% parse (inline)\n"
		"     1.0  50.0% 100.0%     -0.0  -0.0% serve;x\n"
		"     0.0   0.0% 100.0%     -0.0  -0.0% main\n");
}

static void writes_collapsed_stacks(void **state)
{
	(void)state;
	assert_output("collapsed", 0, OPTIONS(0),
		"main;serve:x;parse[inline] 3145728\n"
		"main;serve:x 1048471\n");
}

static void indents_a_tree_only_where_it_forks(void **state)
{
	(void)state;
	assert_output("tree", 0, OPTIONS(0),
		"      MB  share     self\n"
		"     4.0 100.0%      0.0  server\n"
		"     4.0 100.0%      0.0  main\n"
		"     4.0 100.0%      1.0  serve;x\n"
		"     3.0  75.0%      3.0  parse (inline)\n");
}

static void writes_callgrinds_format(void **state)
{
	(void)state;
	assert_output("callgrind", 0, OPTIONS(0),
		"# callgrind format\n"
		"version: 1\n"
		"creator: heapctl\n"
		"cmd: server\n"
		"positions: line\n"
		"events: Bytes\n"
		"\n"
		"fl=(1) ???\n"
		"fn=(1) main\n"
		"0 0\n"
		"cfl=(2) /s.c\n"
		"cfn=(2) serve;x\n"
		"calls=8 0\n"
		"0 4194199\n"
		"\n"
		"fl=(2)\n"
		"fn=(2)\n"
		"0 1048471\n"
		"cfl=(1)\n"
		"cfn=(3) parse\n"
		"calls=4 0\n"
		"0 3145728\n"
		"\n"
		"fl=(1)\n"
		"fn=(3)\n"
		"0 3145728\n"
		"\n"
		"totals: 4194199\n");
}

static void writes_a_frame_without_a_function_by_its_address(void **state)
{
	(void)state;
	struct view *const view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);
	const struct render_options options = RENDER_OPTIONS_DEFAULT;
	struct error err = { 0 };
	struct buffer out;
	char name[32];

	view->title = "server";
	for (uint32_t i = 0; i < 64; i++) {
		snprintf(name, sizeof name, "0x%016x", 0x401000 + i);
		view_add_node(view, &(struct view_node){ .name = name });
		add(view, &i, 1, MIB, 0);
	}
	buffer_init(&out, &memory_or_exit);
	assert_true(renderer_find("callgrind")->render(view, &options, &out, &err));
	assert_contains(buffer_string(&out), "fn=(64) 0x000000000040103f\n0 1048576\n");
	buffer_deinit(&out);
	view_free(view);
}

static void refuses_to_write_what_shrank_for_callgrind(void **state)
{
	(void)state;
	struct view *const view = make_view(4 * MIB);
	const struct render_options options = RENDER_OPTIONS_DEFAULT;
	struct error err = { 0 };
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	assert_false(renderer_find("callgrind")->render(view, &options, &out, &err));
	assert_contains(err.message, "negative values");
	assert_int_equal(out.size, 0);
	view_free(view);
}

static void writes_json_with_errors_of_every_figure(void **state)
{
	(void)state;
	struct view *const view = make_view(0);
	const struct render_options options = RENDER_OPTIONS_DEFAULT;
	struct error err = { 0 };
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	assert_true(renderer_find("json")->render(view, &options, &out, &err));
	const char *const json = buffer_string(&out);
	assert_contains(json, "\"counter\":\"inuse_space\",\"unit\":\"B\"");
	assert_contains(json, "\"flat\":{\"value\":3145728,\"standard_error\":1048576,"
			      "\"samples\":4,\"interval95\":[");
	assert_contains(json, "\"paths\":[{\"nodes\":[0,1,2],\"inuse_space\":{");
	assert_null(strstr(json, "alloc_space"));
	buffer_deinit(&out);
	view_free(view);
}

static void rounds_as_printf_does(void **state)
{
	(void)state;
	struct view *const view = make_view(0);
	const struct render_options options = RENDER_OPTIONS_DEFAULT;
	static const double hard[] = { 0, -0.0, 0.05, 0.15, 0.25, 0.35, 2.5, 0.95, 9.95, 99.95,
		-0.04, -0.06, 1e11, 1e12, 1e15, 1e22, -123456.75, INFINITY };

	srand48(1);
	for (size_t i = 0; i < 100000; i++) {
		const size_t hard_count = sizeof hard / sizeof *hard;
		/* Every second one is a tenth and a half, as near to it as a double can be. */
		const double value = i < hard_count ? hard[i]
				     : i % 2 == 0   ? ldexp(drand48() - 0.5, (int)(i % 48))
						    : trunc(drand48() * 1e7) / 10 + 0.05;
		char wanted[64];
		snprintf(wanted, sizeof wanted, "%.1f", value);
		assert_string_equal(jeprof_value_format(view, &options, value * MIB).text, wanted);
		snprintf(wanted, sizeof wanted, "%.1f%%", value * 100 / 100);
		assert_string_equal(jeprof_value_percent(value, 100).text, wanted);
	}
	view_free(view);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(rounds_as_printf_does),
	cmocka_unit_test(prints_the_columns_of_jeprof),
	cmocka_unit_test(cuts_bytes_rather_than_rounding_them),
	cmocka_unit_test(shows_the_unit_that_is_asked_for),
	cmocka_unit_test(shows_means_with_the_shares_of_the_sums),
	cmocka_unit_test(refuses_units_of_other_figures),
	cmocka_unit_test(sorts_by_cumulative_figures_and_by_name),
	cmocka_unit_test(names_the_thread_in_the_total),
	cmocka_unit_test(shows_errors_and_samples_when_asked),
	cmocka_unit_test(never_shows_shares_of_a_difference_above_100),
	cmocka_unit_test(writes_collapsed_stacks),
	cmocka_unit_test(indents_a_tree_only_where_it_forks),
	cmocka_unit_test(writes_callgrinds_format),
	cmocka_unit_test(writes_a_frame_without_a_function_by_its_address),
	cmocka_unit_test(refuses_to_write_what_shrank_for_callgrind),
	cmocka_unit_test(writes_json_with_errors_of_every_figure),
};

UNIT_MAIN(tests)
