/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shared_library.h"

#include <string.h>

#include "unit.h"

static void one_that_is_installed_is_opened(void **state)
{
	struct error err = { 0 };
	void *library = NULL;

	(void)state;
	assert_true(shared_library_open("libm.so.6", "libc6", &library, &err));
	assert_non_null(library);
}

/* A gateway answers 501 by the kind. */
static void the_error_of_one_that_is_missing_says_what_to_install(void **state)
{
	struct error err = { 0 };
	void *library = NULL;

	(void)state;
	assert_false(shared_library_open("libnowhere.so.1", "libnowhere1", &library, &err));
	assert_int_equal(err.kind, ERROR_UNSUPPORTED);
	assert_string_equal(err.message, "libnowhere.so.1 is missing");
	assert_string_equal(err.hint, "install it: apt install libnowhere1");
	assert_null(library);
}

/* A file that is no library stands for one whose own libraries are missing: the loader names both.
 */
static void one_that_cannot_be_loaded_is_not_called_missing(void **state)
{
	struct error err = { 0 };
	void *library = NULL;

	(void)state;
	assert_false(shared_library_open("/dev/null", "libnowhere1", &library, &err));
	assert_int_equal(err.kind, ERROR_UNSUPPORTED);
	/* "file too short", or with musl "Exec format error". */
	assert_contains(err.message, "/dev/null cannot be loaded: /dev/null: ");
	assert_non_null(strstr(err.hint, "apt install --reinstall libnowhere1"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(one_that_is_installed_is_opened),
	cmocka_unit_test(the_error_of_one_that_is_missing_says_what_to_install),
	cmocka_unit_test(one_that_cannot_be_loaded_is_not_called_missing),
};
UNIT_MAIN(tests)
