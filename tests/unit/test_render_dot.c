/* SPDX-License-Identifier: Apache-2.0 */
#include "render/renderers.h"

#include <string.h>

#include "base/xalloc.h"
#include "render/quantity.h"

#include "unit.h"

#define MIB 1048576.0

static struct view *make_view(void)
{
	struct view *const view = view_new(PROFILE_HEAP, VIEW_FUNCTIONS);

	view->title = "server";
	view->subtitle = "one.heap";
	return view;
}

static uint32_t add_node(struct view *view, const char *name, bool is_inlined)
{
	return view_add_node(view, &(struct view_node){ .name = name,
					   .function = name,
					   .file = "src/a.c",
					   .module = "server",
					   .line = 7,
					   .is_inlined = is_inlined });
}

static void add_path(
	struct view *view, const uint32_t *nodes, size_t depth, double now, double base)
{
	struct view_path *const path = view_add_path(view, nodes, depth);

	path->now[PROFILE_INUSE_SPACE] = (struct estimate){ .value = now };
	view_path_base(view, path)[PROFILE_INUSE_SPACE] = (struct estimate){ .value = base };
	view->total[PROFILE_INUSE_SPACE] += now;
	view->base_total[PROFILE_INUSE_SPACE] += base;
}

static char *draw(const struct view *view, const struct render_options *options)
{
	struct error err;
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	assert_true(renderer_find("dot")->render(view, options, &out, &err));
	return buffer_take(&out);
}

static char *name_of(const char *name)
{
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	dot_append_name(&out, name);
	return buffer_take(&out);
}

static void assert_name(const char *name, const char *wanted)
{
	CLEANUP(free_cleanup) char *text = name_of(name);

	assert_string_equal(text, wanted);
}

static void writes_boxes_with_shares_and_arrows_with_values(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = make_view();
	const uint32_t a = add_node(view, "main", false), b = add_node(view, "leaf", false);
	add_path(view, (uint32_t[]){ a, b }, 2, 3 * MIB, 0);
	add_path(view, (uint32_t[]){ a }, 1, MIB, 0);
	CLEANUP(free_cleanup) char *text = draw(view, &RENDER_OPTIONS_DEFAULT);
	assert_contains(text, "digraph \"server; 4.0 MiB\" {");
	assert_contains(text, "label=\"server\\lone.heap\\lTotal space in use: 4.0 MiB\\l\"");
	assert_contains(text, "N1 [label=\"main\\n1.0 MiB (25.0%)\\nof 4.0 MiB (100.0%)\","
			      "fontsize=33.0,");
	assert_contains(text, "N2 [label=\"leaf\\n3.0 MiB (75.0%)\",fontsize=51.3,");
	assert_contains(text, "tooltip=\"leaf\\nsrc/a.c:7\\nin server\\nitself 3.0 MiB");
	assert_contains(text, "N1 -> N2 [label=\"  3.0 MiB\",");
	assert_contains(text, "style=solid");
}

static void dashes_the_arrow_into_an_inlined_function(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = make_view();
	const uint32_t a = add_node(view, "main", false), b = add_node(view, "leaf", true);
	add_path(view, (uint32_t[]){ a, b }, 2, MIB, 0);
	CLEANUP(free_cleanup) char *text = draw(view, &RENDER_OPTIONS_DEFAULT);
	assert_contains(text, "style=dashed");
}

static void says_how_much_was_left_out(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = make_view();
	const uint32_t a = add_node(view, "big", false), b = add_node(view, "small", false);
	add_path(view, (uint32_t[]){ a }, 1, 1000 * MIB, 0);
	add_path(view, (uint32_t[]){ b }, 1, MIB, 0);
	CLEANUP(free_cleanup) char *text = draw(view, &RENDER_OPTIONS_DEFAULT);
	assert_contains(text, "Left out: 1 of 2 nodes (up to 5.0 MiB each)");
	assert_null(strstr(text, "small"));
}

static void colours_a_difference_by_its_direction(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = make_view();
	const uint32_t a = add_node(view, "grew", false), b = add_node(view, "shrank", false);
	view->is_difference = true;
	add_path(view, (uint32_t[]){ a }, 1, 3 * MIB, MIB);
	add_path(view, (uint32_t[]){ b }, 1, 0, 2 * MIB);
	CLEANUP(free_cleanup) char *text = draw(view, &RENDER_OPTIONS_DEFAULT);
	assert_contains(text,
		"N1 [label=\"grew\\n+2.0 MiB (50.0%)\",fontsize=43.4,margin=\"0.64,0.055\","
		"fillcolor=\"#dd7e33\"");
	assert_contains(text,
		"N2 [label=\"shrank\\n-2.0 MiB (-50.0%)\",fontsize=43.4,margin=\"0.67,0.055\","
		"fillcolor=\"#33b18e\"");
	assert_contains(text, "Total space in use: 0 B");
}

static void shows_bytes_and_intervals_when_asked(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = make_view();
	const uint32_t a = add_node(view, "main", false);
	struct render_options options = RENDER_OPTIONS_DEFAULT;
	add_path(view, &a, 1, MIB, 0);
	view->paths[0].now[PROFILE_INUSE_SPACE].variance = 1e10;
	options.show_bytes = true;
	options.confidence = true;
	CLEANUP(free_cleanup) char *text = draw(view, &options);
	assert_contains(text, "main\\n1,048,576 B (100.0%) \xc2\xb1 196,000 B\"");
}

static void draws_the_legend_of_an_empty_view(void **state)
{
	(void)state;
	CLEANUP(view_cleanup) struct view *view = make_view();
	CLEANUP(free_cleanup) char *text = draw(view, &RENDER_OPTIONS_DEFAULT);
	assert_contains(text, "No nodes to show");
}

static void escapes_what_graphviz_would_take_for_its_own(void **state)
{
	(void)state;
	assert_name("a\"b\\N", "a\\\"b\\\\N");
	assert_name("operator&lt;", "operator&amp;lt;");
	assert_name("bad\x80 utf", "bad\xef\xbf\xbd utf");
	assert_name("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	assert_name("tab\there\xef\xbf\xbf", "tab here\xef\xbf\xbd");
}

static void cuts_and_breaks_long_names(void **state)
{
	(void)state;
	assert_name("short::name", "short::name");
	assert_name("std::vector<std::pair<int, std::string>, std::allocator<X>>::push_back(int)",
		"std::vector<\xe2\x80\xa6>::push_back(int)");
	assert_name("very_long_namespace_name::another_long_class::method_of_it",
		"very_long_namespace_name::\\nanother_long_class::method_of_it");
	assert_name("ns::operator<(std::basic_string<char> const&, int)",
		"ns::operator<(\xe2\x80\xa6)");
	assert_name("(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)");
	assert_name("<alloc::vec::Vec<T> as core::clone::Clone>::clone",
		"<alloc::vec::Vec<T> as core::clone::Clone>::\\nclone");
}

static void shortens_a_word_without_end(void **state)
{
	(void)state;
	char name[400];
	memset(name, 'x', sizeof name);
	name[sizeof name - 1] = '\0';
	CLEANUP(free_cleanup) char *text = name_of(name);
	assert_int_equal(strlen(text), 64 + strlen("\xe2\x80\xa6"));
}

static void formats_quantities(void **state)
{
	(void)state;
	assert_string_equal(quantity_format(QUANTITY_BYTES, 1023, false).text, "1023 B");
	assert_string_equal(quantity_format(QUANTITY_BYTES, 1024, true).text, "+1.0 KiB");
	assert_string_equal(quantity_format(QUANTITY_BYTES, -1048575, false).text, "-1.0 MiB");
	assert_string_equal(quantity_format(QUANTITY_COUNT, 1608563.4, false).text, "1,608,563");
	assert_string_equal(quantity_format(QUANTITY_TIME, 12.5e6, false).text, "12.5 ms");
	assert_string_equal(quantity_format(QUANTITY_TIME, -90e9, false).text, "-90.0 s");
	assert_string_equal(quantity_format(QUANTITY_COUNT, 1e300, false).text, "1e+300");
	assert_string_equal(quantity_format(QUANTITY_EXACT_BYTES, 123456, false).text, "123,456 B");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(writes_boxes_with_shares_and_arrows_with_values),
	cmocka_unit_test(dashes_the_arrow_into_an_inlined_function),
	cmocka_unit_test(says_how_much_was_left_out),
	cmocka_unit_test(colours_a_difference_by_its_direction),
	cmocka_unit_test(shows_bytes_and_intervals_when_asked),
	cmocka_unit_test(draws_the_legend_of_an_empty_view),
	cmocka_unit_test(escapes_what_graphviz_would_take_for_its_own),
	cmocka_unit_test(cuts_and_breaks_long_names),
	cmocka_unit_test(shortens_a_word_without_end),
	cmocka_unit_test(formats_quantities),
};
UNIT_MAIN(tests)
