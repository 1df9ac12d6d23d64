/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cursor.h"

#include "unit.h"

/* Bytes of a LEB128 number. */
struct leb {
	unsigned char bytes[12];
	size_t size;
	uint64_t number;
	int64_t number_signed;
};

static const struct leb lebs[] = {
	{ { 0x00 }, 1, 0, 0 },
	{ { 0x3f }, 1, 63, 63 },
	{ { 0x40 }, 1, 64, -64 },
	{ { 0x7f }, 1, 127, -1 },
	{ { 0xc0, 0x00 }, 2, 64, 64 },
	{ { 0x80, 0x01 }, 2, 128, 128 },
	{ { 0xbf, 0x7f }, 2, 16319, -65 },
	{ { 0xff, 0x3f }, 2, 8191, 8191 },
	{ { 0x80, 0x40 }, 2, 8192, -8192 },
	{ { 0xff, 0x7f }, 2, 16383, -1 },
	{ { 0x80, 0xc0, 0x00 }, 3, 8192, 8192 },
	{ { 0xff, 0xbf, 0x7f }, 3, 2088959, -8193 },
	{ { 0x80, 0x80, 0x80, 0x00 }, 4, 0, 0 },
	{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 }, 10, UINT64_MAX, -1 },
	{ { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f }, 10, UINT64_C(1) << 63,
		INT64_MIN },
};

static void reads_numbers_of_every_length(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof lebs / sizeof *lebs; i++) {
		/* At the very end, and with more behind it. */
		for (size_t size = lebs[i].size; size <= lebs[i].size + 2; size++) {
			struct cursor in = cursor_over(lebs[i].bytes, size);
			assert_true(cursor_uleb(&in) == lebs[i].number);
			assert_int_equal(cursor_offset(&in), lebs[i].size);
			in = cursor_over(lebs[i].bytes, size);
			assert_true(cursor_sleb(&in) == lebs[i].number_signed);
			assert_int_equal(cursor_offset(&in), lebs[i].size);
			assert_true(cursor_ok(&in));
		}
	}
}

static void fails_where_a_number_has_no_end(void **state)
{
	(void)state;
	static const unsigned char bytes[] = { 0x80, 0xff, 0x80 };

	for (size_t size = 0; size <= sizeof bytes; size++) {
		struct cursor in = cursor_over(bytes, size);
		assert_true(cursor_uleb(&in) == 0);
		assert_false(cursor_ok(&in));
		in = cursor_over(bytes, size);
		assert_true(cursor_sleb(&in) == 0);
		assert_false(cursor_ok(&in));
		assert_int_equal(cursor_left(&in), 0);
	}
}

static void steps_over_texts(void **state)
{
	(void)state;
	struct cursor in = cursor_over("ab\0\0cd", 6);

	cursor_skip_string(&in);
	assert_int_equal(cursor_offset(&in), 3);
	cursor_skip_string(&in);
	assert_int_equal(cursor_offset(&in), 4);
	assert_true(cursor_ok(&in));
	cursor_skip_string(&in);
	assert_false(cursor_ok(&in));
	assert_int_equal(in.problem_offset, 4);
}

static void says_that_a_part_is_missing_where_the_bytes_end(void **state)
{
	(void)state;
	struct error err = { 0 };
	struct cursor in = cursor_over("heap", 4);

	cursor_fail(&in, "a number was expected");
	assert_false(cursor_error(&in, "web.heap", &err));
	assert_string_equal(err.message, "web.heap: byte 0: a number was expected");
	assert_string_equal(err.hint, "");

	in = cursor_over("heap", 4);
	cursor_skip(&in, 4);
	cursor_fail(&in, "a number was expected");
	assert_false(cursor_error(&in, "web.heap", &err));
	assert_non_null(strstr(err.hint, "a part of it is missing"));

	in = cursor_over("heap", 4);
	cursor_skip(&in, 8);
	err = (struct error){ 0 };
	assert_false(cursor_error(&in, "web.heap", &err));
	assert_non_null(strstr(err.hint, "a part of it is missing"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(says_that_a_part_is_missing_where_the_bytes_end),
	cmocka_unit_test(reads_numbers_of_every_length),
	cmocka_unit_test(fails_where_a_number_has_no_end),
	cmocka_unit_test(steps_over_texts),
};
UNIT_MAIN(tests)
