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

static void assert_printed(const char *text, const char *wanted)
{
	struct buffer out;

	buffer_init(&out, &memory_heap);
	utf8_append_printable(&out, text, strlen(text));
	assert_string_equal(buffer_string(&out), wanted);
	assert_int_equal(utf8_is_printable(text, strlen(text)), strcmp(text, wanted) == 0);
	buffer_deinit(&out);
}

static void letters_of_all_languages_stay(void **state)
{
	(void)state;
	assert_printed("", "");
	assert_printed("std::vector<int>::push_back(int&&)", "std::vector<int>::push_back(int&&)");
	assert_printed("größe_日本語_שלום_🦀", "größe_日本語_שלום_🦀");
}

static void controls_and_marks_are_shown(void **state)
{
	(void)state;
	assert_printed("\x1b[2Jclear\a", "\\x1b[2Jclear\\x07");
	assert_printed("two\nlines\r\t\x7f", "two\\x0alines\\x0d\\x09\\x7f");
	assert_printed("\xc2\x9b"
		       "31m",
		"\\u009b31m");
	assert_printed("a\u202egnp.exe", "a\\u202egnp.exe");
	assert_printed("a\u2066b\u2069\u200f\u2028", "a\\u2066b\\u2069\\u200f\\u2028");
	assert_printed("bad\xff\xe2\x80", "bad\\xff\\xe2\\x80");
}

static void assert_markup(const char *text, const char *wanted)
{
	struct buffer out;

	buffer_init(&out, &memory_heap);
	utf8_append_markup(&out, text, strlen(text));
	assert_string_equal(buffer_string(&out), wanted);
	buffer_deinit(&out);
}

static void markup_is_escaped(void **state)
{
	(void)state;
	assert_markup("größe\t🦀\n", "größe\t🦀\n");
	assert_markup("a<b> & \"c\"", "a&lt;b&gt; &amp; &quot;c&quot;");
	assert_markup("\x1b[2J\r\f\x7f", " [2J   ");
	assert_markup("bad\xff\xe2\x80", "bad\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(measures_characters_of_all_lengths),
	cmocka_unit_test(refuses_what_is_no_character),
	cmocka_unit_test(letters_of_all_languages_stay),
	cmocka_unit_test(controls_and_marks_are_shown),
	cmocka_unit_test(markup_is_escaped),
};
UNIT_MAIN(tests)
