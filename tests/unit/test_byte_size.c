/* SPDX-License-Identifier: Apache-2.0 */
#include "base/byte_size.h"

#include <string.h>

#include "unit.h"

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
	cmocka_unit_test(writes_the_largest_unit_of_which_there_is_one),
	cmocka_unit_test(reads_amounts_with_and_without_units),
	cmocka_unit_test(refuses_what_is_no_amount),
};

UNIT_MAIN(tests)
