/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

#include "unit.h"

static size_t length_of(const char *text)
{
	return utf8_length(text, strlen(text));
}

static void measures_characters_of_all_lengths(void **state)
{
	(void)state;
	assert_int_equal(length_of("a"), 1);
	assert_int_equal(length_of("\xc3\xa9."), 2);
	assert_int_equal(length_of("\xe2\x82\xac."), 3);
	assert_int_equal(length_of("\xf0\x9f\x94\xa5."), 4);
}

static void refuses_what_is_no_character(void **state)
{
	(void)state;
	assert_int_equal(length_of("\x80"), 0);
	assert_int_equal(length_of("\xc0\xaf"), 0);
	assert_int_equal(length_of("\xed\xa0\x80"), 0);
	assert_int_equal(length_of("\xf4\x90\x80\x80"), 0);
	assert_int_equal(length_of("\xe2\x82"), 0);
	assert_int_equal(length_of("\xe2\x82z"), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(measures_characters_of_all_lengths),
	cmocka_unit_test(refuses_what_is_no_character),
};
UNIT_MAIN(tests)
