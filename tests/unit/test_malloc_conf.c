/* SPDX-License-Identifier: Apache-2.0 */
#include "base/malloc_conf.h"

#include <string.h>

#include "unit.h"

static void takes_pairs_apart(void **state)
{
	(void)state;
	const char *text = "prof:true,prof_prefix:/a:b,";
	struct malloc_conf_pair pair;

	assert_true(malloc_conf_next(&text, &pair));
	assert_int_equal(pair.key_size, 4);
	assert_int_equal(pair.value_size, 4);
	assert_true(malloc_conf_next(&text, &pair));
	assert_memory_equal(pair.value, "/a:b", 4);
	assert_int_equal(pair.value_size, 4);
	assert_false(malloc_conf_next(&text, &pair));
	assert_int_equal(*text, '\0');
}

static void the_last_pair_counts(void **state)
{
	(void)state;
	struct malloc_conf_pair pair;

	assert_true(
		malloc_conf_find("lg_prof_sample:19,lg_prof_sample:12", "lg_prof_sample", &pair));
	assert_memory_equal(pair.value, "12", 2);
	assert_false(malloc_conf_find("profile:true", "prof", &pair));
	assert_true(malloc_conf_is_on("prof:false,prof:true", "prof", false));
	assert_true(malloc_conf_is_on("prof:true,prof:yes", "prof", false));
	assert_false(malloc_conf_is_on("", "prof", false));
}

static void stops_where_jemalloc_stops(void **state)
{
	(void)state;
	struct malloc_conf_pair pair;

	/* The blank ends the reading, so that prof_active stays at its default. */
	assert_false(malloc_conf_find("prof:true, prof_active:false", "prof_active", &pair));
}

static void expect_problem(const char *text, const char *message, const char *hint)
{
	struct error err = { 0 };

	if (malloc_conf_check(text, &err))
		fail_msg("'%s' was accepted", text);
	assert_contains(err.message, message);
	assert_contains(err.hint, hint);
	assert_int_equal(err.kind, ERROR_USAGE);
}

static void explains_a_colon_for_a_comma(void **state)
{
	(void)state;
	expect_problem("prof:true,prof_prefix:/x:prof_active:false",
		"prof_prefix swallows ':prof_active:false'", "prof_prefix:/x,prof_active:false");
}

static void explains_other_separators(void **state)
{
	(void)state;
	expect_problem("prof:true;narenas:4", "swallows ';narenas:4'", "prof:true,narenas:4");
	expect_problem("prof:true, prof_active:false", "stops reading at ' prof_active:false'",
		"without blanks");
	expect_problem("prof=true", "stops reading at 'prof=true'", "KEY:VALUE");
	expect_problem("prof", "'prof' has no value", "prof:VALUE");
}

static void checks_values(void **state)
{
	(void)state;
	expect_problem("prof:yes", "'true' or 'false'", "prof:true");
	expect_problem("lg_prof_sample:99", "outside 0 to 63", "0 to 63");
	expect_problem("lg_prof_sample:512K", "not a number", "NUMBER");
	expect_problem("profiling:true", "no option 'profiling'", "jemalloc(3)");
}

static void accepts_what_jemalloc_accepts(void **state)
{
	(void)state;
	struct error err = { 0 };

	assert_true(malloc_conf_check("", &err));
	assert_true(malloc_conf_check("prof:true,prof_active:false,lg_prof_interval:-1,"
				      "lg_prof_sample:0x13,prof_prefix:/var/tmp/a:b,narenas:1.0",
		&err));
}

static void lists_every_problem(void **state)
{
	(void)state;
	struct error err = { 0 };
	size_t count = 0;

	while (malloc_conf_problem("prof:yes,abort:no,zero:true,x", count, &err))
		count++;
	assert_int_equal(count, 3);
}

static void names_the_variable_of_a_prefixed_build(void **state)
{
	(void)state;
	char variable[MALLOC_CONF_VARIABLE_BYTES];

	assert_string_equal(malloc_conf_variable("mallctl", variable), "MALLOC_CONF");
	assert_string_equal(malloc_conf_variable("je_mallctl", variable), "JE_MALLOC_CONF");
	assert_string_equal(malloc_conf_variable("jemallctl", variable), "JEMALLOC_CONF");
	assert_string_equal(malloc_conf_variable("_rjem_mallctl", variable), "_RJEM_MALLOC_CONF");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(takes_pairs_apart),
	cmocka_unit_test(the_last_pair_counts),
	cmocka_unit_test(stops_where_jemalloc_stops),
	cmocka_unit_test(explains_a_colon_for_a_comma),
	cmocka_unit_test(explains_other_separators),
	cmocka_unit_test(checks_values),
	cmocka_unit_test(accepts_what_jemalloc_accepts),
	cmocka_unit_test(lists_every_problem),
	cmocka_unit_test(names_the_variable_of_a_prefixed_build),
};
UNIT_MAIN(tests)
