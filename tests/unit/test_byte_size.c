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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_amounts_with_and_without_units),
	cmocka_unit_test(refuses_what_is_no_amount),
};

UNIT_MAIN(tests)
