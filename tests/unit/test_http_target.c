/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http_target.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

static void takes_path_and_parameters_apart(void **state)
{
	(void)state;
	char text[] = "/v1/mall%63tl/a.b?value=x%20y+z&type=u64&flag&&empty=#part";
	struct http_target target;
	struct error err;
	assert_true(http_target_parse(text, &target, &err));
	assert_string_equal(target.path, "/v1/mallctl/a.b");
	assert_int_equal(target.parameter_count, 4);
	assert_string_equal(http_target_parameter(&target, "value"), "x y z");
	assert_string_equal(http_target_parameter(&target, "flag"), "");
	assert_string_equal(http_target_parameter(&target, "empty"), "");
	assert_null(http_target_parameter(&target, "Value"));
}

static void skips_scheme_and_host(void **state)
{
	(void)state;
	char text[] = "http://agent:1/v1/status?x=http://y";
	struct http_target target;
	struct error err;
	assert_true(http_target_parse(text, &target, &err));
	assert_string_equal(target.path, "/v1/status");
	assert_string_equal(http_target_parameter(&target, "x"), "http://y");
}

static void refuses_what_makes_no_sense(void **state)
{
	(void)state;
	static const char *const cases[] = { "", "v1", "*", "http://agent", "/%", "/%4", "/%g0",
		"/%00", "/a?%0a=1", "/a?b=%7f", "/a?x=1&x=2",
		"/a?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q" };
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char text[64];
		struct http_target target;
		struct error err;
		strcpy(text, cases[i]);
		if (http_target_parse(text, &target, &err))
			fail_msg("'%s' was accepted", cases[i]);
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_string_not_equal(err.hint, "");
	}
}

static void names_the_unknown_parameter(void **state)
{
	(void)state;
	static const char *const known[] = { "duration_ms", NULL };
	char text[] = "/v1/runs?duration_ms=1&durations=2";
	struct http_target target;
	struct error err;
	assert_true(http_target_parse(text, &target, &err));
	assert_false(http_target_allow(&target, known, &err));
	assert_contains(err.message, "'durations'");
	target.parameter_count = 1;
	assert_true(http_target_allow(&target, known, &err));
}

static void says_what_to_do_about_too_many_parameters(void **state)
{
	(void)state;
	char text[256] = "/v1/runs?";
	struct http_target target;
	struct error err;
	for (int i = 0; i <= HTTP_PARAMETERS_MAX; i++)
		sprintf(text + strlen(text), "p%d=1&", i);
	assert_false(http_target_parse(text, &target, &err));
	assert_contains(err.message, "more than 16 parameters");
	assert_contains(err.hint, "leave out");
}

static void encodes_what_it_decodes(void **state)
{
	(void)state;
	const char strange[] = "a b+c%&=?#/\xc3\xa9~";
	struct buffer text;
	struct http_target target;
	struct error err;
	buffer_init(&text, &memory_heap);
	buffer_append_string(&text, "/p/");
	http_append_encoded(&text, "x/y z");
	buffer_append_string(&text, "?v=");
	http_append_encoded(&text, strange);
	char *const copy = buffer_take(&text);
	assert_true(http_target_parse(copy, &target, &err));
	assert_string_equal(target.path, "/p/x/y z");
	assert_string_equal(http_target_parameter(&target, "v"), strange);
	free(copy);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(takes_path_and_parameters_apart),
	cmocka_unit_test(skips_scheme_and_host),
	cmocka_unit_test(refuses_what_makes_no_sense),
	cmocka_unit_test(names_the_unknown_parameter),
	cmocka_unit_test(says_what_to_do_about_too_many_parameters),
	cmocka_unit_test(encodes_what_it_decodes),
};
UNIT_MAIN(tests)
