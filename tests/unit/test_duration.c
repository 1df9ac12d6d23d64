/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"

#include <string.h>

#include "unit.h"

static void reads_every_unit_of_stout(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t milliseconds;
	} cases[] = {
		{ "600", 600000 },
		{ "30s", 30000 },
		{ "5mins", 300000 },
		{ "1.5hrs", 5400000 },
		{ "250ms", 250 },
		{ "2000us", 2 },
		{ "1000000ns", 1 },
		{ "10secs", 10000 },
		{ "1second", 1000 },
		{ "30seconds", 30000 },
		{ "1minute", 60000 },
		{ "5minutes", 300000 },
		{ "1hour", 3600000 },
		{ "2hours", 7200000 },
		{ "1days", 86400000 },
		{ "1weeks", 604800000 },
		{ "0.5secs", 500 },
		{ ".5s", 500 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error err;
		int64_t parsed = -1;
		assert_true(duration_parse(cases[i].text, &parsed, &err));
		assert_int_equal(parsed, cases[i].milliseconds);
	}
}

static void refuses_what_is_no_duration(void **state)
{
	(void)state;
	static const char *const cases[] = { "", "s", "5 mins", "-3s", "1e3", "inf", "0x10",
		"1..5s", "5parsecs", "5minute s", "99999999999999999999weeks" };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error err;
		int64_t parsed = 42;
		assert_false(duration_parse(cases[i], &parsed, &err));
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_int_equal(parsed, 42);
	}
}

static void keeps_runs_between_a_second_and_a_day(void **state)
{
	(void)state;
	struct error err;
	int64_t parsed = 0;
	assert_false(duration_parse_run("999ms", &parsed, &err));
	assert_true(duration_parse_run("1s", &parsed, &err));
	assert_true(duration_parse_run("24hrs", &parsed, &err));
	assert_false(duration_parse_run("25hrs", &parsed, &err));
}

static void formats_for_people(void **state)
{
	(void)state;
	char text[DURATION_TEXT_BYTES];
	assert_string_equal(duration_format(1500, text), "1.5 s");
	assert_string_equal(duration_format(45000, text), "45 s");
	assert_string_equal(duration_format(300000, text), "5 min");
	assert_string_equal(duration_format(5400000, text), "1 h 30 min");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_every_unit_of_stout),
	cmocka_unit_test(refuses_what_is_no_duration),
	cmocka_unit_test(keeps_runs_between_a_second_and_a_day),
	cmocka_unit_test(formats_for_people),
};
UNIT_MAIN(tests)
