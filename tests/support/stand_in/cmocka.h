/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for cmocka where there is none: in builds for another machine or C library. It has the
 * calls that the tests of the resident side use, and prints what cmocka prints as TAP. A crash ends
 * the program: case_runner.py says in which case.
 */
#pragma once

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*test)(void **state);
	int (*set_up)(void **state);
	int (*tear_down)(void **state);
};

#define cmocka_unit_test_setup_teardown(test, set_up, tear_down) \
	{                                                        \
#test, (test), (set_up), (tear_down)             \
	}
#define cmocka_unit_test_setup(test, set_up) cmocka_unit_test_setup_teardown(test, set_up, NULL)
#define cmocka_unit_test(test) cmocka_unit_test_setup_teardown(test, NULL, NULL)

static struct {
	const char *filter;
	jmp_buf end_of_case;
	bool failed, skipped;
	char message[4096];
} cmocka_run;

static inline void cmocka_set_test_filter(const char *pattern)
{
	cmocka_run.filter = pattern;
}

__attribute__((format(printf, 1, 2))) static inline void print_message(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)vprintf(format, arguments);
	va_end(arguments);
}

__attribute__((noreturn)) static inline void cmocka_skip(void)
{
	cmocka_run.skipped = true;
	longjmp(cmocka_run.end_of_case, 1);
}

__attribute__((noreturn, format(printf, 3, 4))) static inline void cmocka_fail(
	const char *file, int line, const char *format, ...)
{
	va_list arguments;
	const int length =
		snprintf(cmocka_run.message, sizeof(cmocka_run.message), "%s:%d: ", file, line);

	va_start(arguments, format);
	(void)vsnprintf(cmocka_run.message + length, sizeof(cmocka_run.message) - (size_t)length,
		format, arguments);
	va_end(arguments);
	cmocka_run.failed = true;
	longjmp(cmocka_run.end_of_case, 1);
}

static inline void cmocka_check_equal(
	uintmax_t left, uintmax_t right, bool equal, const char *text, const char *file, int line)
{
	if ((left == right) != equal)
		cmocka_fail(file, line, "%s: %#jx %s %#jx", text, left, equal ? "!=" : "==", right);
}

static inline void cmocka_check_string(const char *left, const char *right, bool equal,
	const char *text, const char *file, int line)
{
	if (left == NULL || right == NULL || (strcmp(left, right) == 0) != equal)
		cmocka_fail(file, line, "%s: \"%s\" %s \"%s\"", text,
			left == NULL ? "(NULL)" : left,
			equal ? "!=" : "==", right == NULL ? "(NULL)" : right);
}

static inline void cmocka_check_memory(const void *left, const void *right, size_t size,
	const char *text, const char *file, int line)
{
	if (memcmp(left, right, size) != 0)
		cmocka_fail(file, line, "%s differ within %zu bytes", text, size);
}

#define skip() cmocka_skip()
#define fail_msg(...) cmocka_fail(__FILE__, __LINE__, __VA_ARGS__)
#define assert_true(it) cmocka_check_equal((it) ? 1 : 0, 0, false, #it, __FILE__, __LINE__)
#define assert_false(it) cmocka_check_equal((it) ? 1 : 0, 0, true, #it, __FILE__, __LINE__)
#define assert_int_equal(left, right)                                                      \
	cmocka_check_equal((uintmax_t)(left), (uintmax_t)(right), true, #left ", " #right, \
		__FILE__, __LINE__)
#define assert_int_not_equal(left, right)                                                   \
	cmocka_check_equal((uintmax_t)(left), (uintmax_t)(right), false, #left ", " #right, \
		__FILE__, __LINE__)
#define assert_ptr_equal(left, right)                                                      \
	cmocka_check_equal((uintptr_t)(left), (uintptr_t)(right), true, #left ", " #right, \
		__FILE__, __LINE__)
#define assert_ptr_not_equal(left, right)                                                   \
	cmocka_check_equal((uintptr_t)(left), (uintptr_t)(right), false, #left ", " #right, \
		__FILE__, __LINE__)
#define assert_null(it) cmocka_check_equal((uintptr_t)(it), 0, true, #it, __FILE__, __LINE__)
#define assert_non_null(it) cmocka_check_equal((uintptr_t)(it), 0, false, #it, __FILE__, __LINE__)
#define assert_in_range(it, min, max)                                                       \
	do {                                                                                \
		const uintmax_t value_in_range = (uintmax_t)(it);                           \
		if (value_in_range < (uintmax_t)(min) || value_in_range > (uintmax_t)(max)) \
			fail_msg("%s: %ju is not within %ju-%ju", #it, value_in_range,      \
				(uintmax_t)(min), (uintmax_t)(max));                        \
	} while (0)
#define assert_string_equal(left, right) \
	cmocka_check_string((left), (right), true, #left ", " #right, __FILE__, __LINE__)
#define assert_string_not_equal(left, right) \
	cmocka_check_string((left), (right), false, #left ", " #right, __FILE__, __LINE__)
#define assert_memory_equal(left, right, size) \
	cmocka_check_memory((left), (right), (size), #left ", " #right, __FILE__, __LINE__)

/* A function called within the jump's protection, so that no variable of the loop below lives
 * across it. */
static inline void cmocka_call(const struct CMUnitTest *test, void **state)
{
	if (setjmp(cmocka_run.end_of_case) != 0)
		return;
	if (test->set_up != NULL && test->set_up(state) != 0)
		fail_msg("%s: the set-up failed", test->name);
	test->test(state);
}

static inline void cmocka_tear_down(const struct CMUnitTest *test, void **state)
{
	if (test->tear_down == NULL || setjmp(cmocka_run.end_of_case) != 0)
		return;
	if (test->tear_down(state) != 0)
		fail_msg("%s: the tear-down failed", test->name);
}

static inline bool cmocka_is_chosen(const struct CMUnitTest *test)
{
	return cmocka_run.filter == NULL || fnmatch(cmocka_run.filter, test->name, 0) == 0;
}

static inline int cmocka_run_tests(const struct CMUnitTest *tests, size_t test_count,
	int (*set_up)(void **), int (*tear_down)(void **))
{
	size_t chosen_count = 0, number = 0;
	int failed_count = 0;
	void *group_state = NULL;

	for (size_t i = 0; i < test_count; i++)
		chosen_count += cmocka_is_chosen(&tests[i]) ? 1 : 0;
	print_message("1..%zu\n", chosen_count);
	if (set_up != NULL && set_up(&group_state) != 0)
		return 1;
	for (size_t i = 0; i < test_count; i++) {
		void *state = group_state;

		if (!cmocka_is_chosen(&tests[i]))
			continue;
		number++;
		cmocka_run.failed = cmocka_run.skipped = false;
		cmocka_call(&tests[i], &state);
		cmocka_tear_down(&tests[i], &state);
		if (cmocka_run.failed) {
			failed_count++;
			print_message("not ok %zu - %s\n# %s\n", number, tests[i].name,
				cmocka_run.message);
		} else if (cmocka_run.skipped) {
			print_message("not ok %zu # SKIP %s\n", number, tests[i].name);
		} else {
			print_message("ok %zu - %s\n", number, tests[i].name);
		}
	}
	if (tear_down != NULL && tear_down(&group_state) != 0)
		return 1;
	return failed_count;
}

#define cmocka_run_group_tests(tests, set_up, tear_down) \
	cmocka_run_tests((tests), sizeof(tests) / sizeof((tests)[0]), (set_up), (tear_down))
