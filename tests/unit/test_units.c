/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

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

static void reads_amounts_with_and_without_units(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = { { "0", 0 }, { "512", 512 }, { "64K", 65536 }, { "2GiB", 2147483648u },
		{ "1.5MB", 1500000 }, { "1gib", 1073741824 }, { "1kB", 1000 },
		{ "2TiB", 2199023255552 } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error err;
		uint64_t bytes = 1;
		assert_true(byte_size_parse(cases[i].text, &bytes, &err));
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void refuses_what_is_no_amount(void **state)
{
	(void)state;
	static const char *const cases[] = { "", "GiB", "-1", "1 GiB", "1e3", "0x10", "nan",
		"2GiBs", "99999999TiB" };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error err = { 0 };
		uint64_t bytes = 7;
		assert_false(byte_size_parse(cases[i], &bytes, &err));
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_int_equal(bytes, 7);
	}
}

static void writes_the_largest_unit_of_which_there_is_one(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = { { 0, "0 B" }, { 1, "1 B" }, { 1023, "1023 B" }, { 1024, "1 KiB" },
		{ 1536, "1.5 KiB" }, { UINT64_C(512) << 20, "512 MiB" },
		{ UINT64_MAX, "15.9 EiB" } };
	char text[BYTE_SIZE_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		byte_size_format(cases[i].bytes, text);
		assert_string_equal(text, cases[i].text);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_every_unit_of_stout),
	cmocka_unit_test(refuses_what_is_no_duration),
	cmocka_unit_test(keeps_runs_between_a_second_and_a_day),
	cmocka_unit_test(formats_for_people),
	cmocka_unit_test(writes_the_largest_unit_of_which_there_is_one),
	cmocka_unit_test(reads_amounts_with_and_without_units),
	cmocka_unit_test(refuses_what_is_no_amount),
};
UNIT_MAIN(tests)
