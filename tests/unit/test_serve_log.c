/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve_log.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

static void a_line_that_repeats_is_written_five_times_a_minute(void **state)
{
	char text[SERVE_LOG_LINE_BYTES];
	unsigned written = 0;

	(void)state;
	for (int64_t now_ms = 1000; now_ms < 1000 + 3600 * 1000; now_ms += 1000) {
		serve_log_filter("history: x did not answer in time", now_ms, text);
		written += text[0] != '\0';
	}
	assert_int_equal(written, 5 * 60);
	serve_log_filter("history: x did not answer in time", 4000 * 1000, text);
	assert_contains(text, "history: x did not answer in time (55 times more since)");
}

/* Each snapshot and each capture has a file name of its own. */
static void lines_that_differ_in_a_file_name_repeat(void **state)
{
	char text[SERVE_LOG_LINE_BYTES], line[200];
	unsigned written = 0;

	(void)state;
	for (int second = 0; second < 59; second++) {
		snprintf(line, sizeof line,
			"history: /h/%013d-4711-redis.heap.zst: No space left on device",
			1700 + second);
		serve_log_filter(line, (9000 + second) * 1000, text);
		written += text[0] != '\0';
		snprintf(line, sizeof line,
			"watch: redis: /k/%08d-20261122T2359%02dZ-rss-redis.heap: File too large",
			second, second);
		serve_log_filter(line, (9000 + second) * 1000, text);
		written += text[0] != '\0';
	}
	assert_int_equal(written, 5 + 5);
	serve_log_filter(
		"history: /h/0000000009999-4711-mariadbd.heap.zst: No space left on device",
		9059 * 1000, text);
	assert_contains(text, "mariadbd");
}

static void different_lines_are_all_written(void **state)
{
	char text[SERVE_LOG_LINE_BYTES], line[64];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof line, "line %d", i);
		serve_log_filter(line, 5000 * 1000 + i, text);
		assert_string_equal(text, line);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_line_that_repeats_is_written_five_times_a_minute),
	cmocka_unit_test(lines_that_differ_in_a_file_name_repeat),
	cmocka_unit_test(different_lines_are_all_written),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
