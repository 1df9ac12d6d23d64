/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a unit test needs: cmocka and a main. A test file is a list of functions and
 *
 *	static const struct CMUnitTest tests[] = { cmocka_unit_test(rejects_a_truncated_header) };
 *	UNIT_MAIN(tests)
 *
 * Run one case by giving a glob: `build/tests/unit/test_buffer 'grows*'`. Assert only in the main
 * thread: cmocka leaves a failed test by longjmp.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/sanitizer.h"

/* Each line leaves at once: a crash loses none, and case_runner.py measures each case. */
#define UNIT_MAIN_WITH(tests, set_up)                               \
	int main(int argc, char **argv)                             \
	{                                                           \
		setvbuf(stdout, NULL, _IOLBF, 0);                   \
		if (argc > 1)                                       \
			cmocka_set_test_filter(argv[1]);            \
		return cmocka_run_group_tests(tests, set_up, NULL); \
	}
#define UNIT_MAIN(tests) UNIT_MAIN_WITH(tests, NULL)

/* Whether the program was built for another machine (case_runner.py). */
static inline bool unit_is_emulated(void)
{
	const char *const emulator = getenv("TEST_EMULATOR");

	return emulator != NULL && *emulator != '\0';
}

/* Ends a case that cannot run here; `reason` is shown by `make test`. */
#define skip_because(reason)                             \
	do {                                             \
		print_message("# skip: %s\n", (reason)); \
		skip();                                  \
	} while (0)

/*
 * For a case that computes the same thing hundreds of times, to count results. Where they are wrong
 * is the same in all builds; what a sanitizer, or another compiler, would find is in the others. An
 * emulator takes twenty times as long.
 */
static inline void need_plain_build(void)
{
#if IS_SANITIZED || defined(__clang__)
	skip_because("results are counted in the plain build");
#else
	if (unit_is_emulated())
		skip_because("results are counted in the plain build");
#endif
}

/* Whether `text` contains `part`; the message shows both. */
#define assert_contains(text, part)                                             \
	do {                                                                    \
		if (strstr((text), (part)) == NULL)                             \
			fail_msg("'%s' does not contain '%s'", (text), (part)); \
	} while (0)
