/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <string.h>

#include "unit.h"

static void has_the_c_librarys_words(void **state)
{
	(void)state;
#if defined(__GLIBC__)
	for (int i = 1; i < 4096; i++) {
		const char *const text = errno_text(i);
		const char *const theirs = strerrordesc_np(i);
		if (theirs == NULL)
			assert_null(text);
		else
			assert_string_equal(text, theirs);
	}
#else
	skip_because("the words are glibc's");
#endif
}

static void has_no_word_for_what_is_no_error(void **state)
{
	(void)state;
	assert_null(errno_text(0));
	assert_null(errno_text(-1));
	assert_null(errno_text(1 << 30));
}

static void an_error_without_a_word_has_its_number(void **state)
{
	struct error err;

	(void)state;
	assert_false(error_system(&err, 4000, "open"));
	assert_string_equal(err.message, "open: error 4000");
	assert_false(error_system(&err, ENOSPC, "open"));
	assert_string_equal(err.message, "open: No space left on device");
}

static void a_long_path_leaves_the_reason(void **state)
{
	static const char reason[] = "...: File name too long";
	char path[5000];
	struct error err;

	(void)state;
	memset(path, 'a', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	assert_false(error_system(&err, ENAMETOOLONG, "%s", path));
	assert_int_equal(strlen(err.message), sizeof err.message - 1);
	assert_string_equal(err.message + strlen(err.message) - (sizeof reason - 1), reason);
	assert_false(error_system(&err, ENAMETOOLONG, "open"));
	assert_false(error_prefix(&err, "%s", path));
	assert_int_equal(strlen(err.message), sizeof err.message - 1);
	assert_non_null(strstr(err.message, "...: open: File name too long"));
	/* Both are too long. */
	assert_false(error_set(&err, ERROR_INPUT, "%s", path));
	assert_false(error_prefix(&err, "%s", path));
	assert_int_equal(strlen(err.message), sizeof err.message - 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(has_the_c_librarys_words),
	cmocka_unit_test(has_no_word_for_what_is_no_error),
	cmocka_unit_test(an_error_without_a_word_has_its_number),
	cmocka_unit_test(a_long_path_leaves_the_reason),
};
UNIT_MAIN(tests)
