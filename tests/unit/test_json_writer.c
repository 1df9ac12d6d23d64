/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static void places_commas_and_escapes(void **state)
{
	(void)state;
	struct buffer out;
	struct json_writer json;
	buffer_init(&out, &memory_heap);
	json_init(&json, &out);
	json_object_begin(&json);
	json_member_string(&json, "a\"b", "x\ny\\\x01</script>");
	json_member_array(&json, "list");
	json_put_integer(&json, -3);
	json_put_real(&json, 0.1);
	json_put_real(&json, NAN);
	json_put_bool(&json, true);
	json_put_string(&json, NULL);
	json_array_end(&json);
	json_member_unsigned(&json, "n", UINT64_MAX);
	json_object_end(&json);
	assert_string_equal(buffer_string(&out),
		"{\"a\\\"b\":\"x\\ny\\\\\\u0001\\u003c/script>\",\"list\":[-3,0.1,null,true,null],"
		"\"n\":18446744073709551615}");
	buffer_deinit(&out);
}

static void replaces_what_is_not_utf8(void **state)
{
	(void)state;
	struct buffer out;
	struct json_writer json;
	buffer_init(&out, &memory_heap);
	json_init(&json, &out);
	json_put_string(&json, "\xc3\xa9\xff\xc0\xaf\xed\xa0\x80\xe2\x82");
	assert_string_equal(buffer_string(&out),
		"\"\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
	buffer_deinit(&out);
}

/* The shortest of 15 and 17 digits that is read as the same number, by the C library. */
static void check_real(double value)
{
	char expected[40];
	struct buffer out;
	struct json_writer json;

	if (!isfinite(value))
		return;
	buffer_init(&out, &memory_heap);
	json_init(&json, &out);
	json_put_real(&json, value);
	snprintf(expected, sizeof expected, "%.15g", value);
	if (strtod(expected, NULL) != value)
		snprintf(expected, sizeof expected, "%.17g", value);
	assert_string_equal(buffer_string(&out), expected);
	buffer_deinit(&out);
}

static void writes_numbers_as_the_c_library_does(void **state)
{
	static const double values[] = { 0, -0.0, 1, -1, 0.1, 0.3, 1.0 / 3, 2.0 / 3, 0.001,
		0.0009999, 1e-4, 1e-5, 9.99, 9.999999999999999, 99.99999999999999, 1e14, 1e15, 1e16,
		1e17, 999999999999999, 999999999999999.9, 0.5, 0.25, 1.0000000000000002,
		123456789.125, 562949953421311.5, 562949953421310.5, 0.099999999999999992,
		0.0099999999999999985, 5e-324, 1.7976931348623157e308, 18446744073709551615.0,
		29445284.5, 608432.6 };
	uint64_t seed = 0x9e3779b97f4a7c15;

	(void)state;
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		check_real(values[i]);
		check_real(-values[i]);
		check_real(nextafter(values[i], INFINITY));
		check_real(nextafter(values[i], -INFINITY));
	}
	for (int i = 0; i < 100000; i++) {
		seed = seed * 6364136223846793005 + 1442695040888963407;
		check_real(ldexp((double)(seed >> 11), (int)(seed % 70) - 66));
		check_real((double)(seed >> 44) / 1000);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(writes_numbers_as_the_c_library_does),
	cmocka_unit_test(places_commas_and_escapes),
	cmocka_unit_test(replaces_what_is_not_utf8),
};
UNIT_MAIN(tests)
