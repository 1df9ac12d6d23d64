/* SPDX-License-Identifier: Apache-2.0 */
#include "render/renderers.h"

#include <string.h>

#include "base/xalloc.h"

#include "unit.h"

static bool draw(const char *dot, const char *format, unsigned limit_s, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer out = { 0 };

	buffer_init(&out, &memory_or_exit);
	const bool is_drawn = graphviz_draw(dot, format, limit_s, &out, err);
	assert_int_equal(is_drawn, out.size > 0);
	return is_drawn;
}

static void draws_a_graph(void **state)
{
	(void)state;
	struct error err;
	assert_true(draw("digraph { a -> b }", "svg", 60, &err));
}

static void says_what_is_wrong_with_a_graph(void **state)
{
	(void)state;
	struct error err;
	assert_false(draw("digraph { a -> ", "svg", 60, &err));
	assert_int_equal(err.kind, ERROR_INPUT);
	assert_contains(err.message, "syntax error");
}

static void refuses_an_unknown_format(void **state)
{
	(void)state;
	struct error err;
	assert_false(draw("digraph { a -> b }", "no-such-format", 60, &err));
	assert_int_equal(err.kind, ERROR_UNSUPPORTED);
}

static void cancels_a_layout_that_takes_too_long(void **state)
{
	(void)state;
	struct error err;
	CLEANUP(buffer_deinit) struct buffer dot = { 0 };
	uint32_t chance = 1;
	buffer_init(&dot, &memory_or_exit);
	buffer_append_string(&dot, "digraph {\n");
	for (unsigned i = 0; i < 6000; i++) {
		chance = chance * 1664525 + 1013904223;
		buffer_printf(&dot, "%u -> %u;\n", i / 4, (chance >> 8) % 1500);
	}
	buffer_append_string(&dot, "}\n");
	assert_false(draw(buffer_string(&dot), "svg", 1, &err));
	assert_int_equal(err.kind, ERROR_TIMEOUT);
	assert_contains(err.hint, "--nodecount");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(draws_a_graph),
	cmocka_unit_test(says_what_is_wrong_with_a_graph),
	cmocka_unit_test(refuses_an_unknown_format),
	cmocka_unit_test(cancels_a_layout_that_takes_too_long),
};
UNIT_MAIN(tests)
