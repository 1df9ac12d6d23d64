/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/settings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "unit.h"

static bool parse(const char *text, bool has_history, struct watch_file *file, struct error *err)
{
	return watch_file_parse("w", text, strlen(text), has_history, file, err);
}

static void sections_have_the_words_of_the_options(void **state)
{
	(void)state;
	CLEANUP(watch_file_deinit) struct watch_file file = { 0 };
	struct error err;

	if (!parse("# a comment\r\n"
		   "\n"
		   "  [redis-server]\n"
		   "when = rss>2GiB\n"
		   "\twhen=every=15mins  \r\n"
		   "activate = yes\n"
		   "cool-down = 1mins\n"
		   "interval = 2s\n"
		   "keep = /var/lib/a b\n"
		   "keep-count = 3\n"
		   "keep-bytes = 1MiB\n"
		   "keep-free = 2MiB\n"
		   "adopt = /var/tmp/je\n"
		   "then = /bin/send --to 'x # y'\n"
		   "[redis-server]\n"
		   "when = signal\n"
		   "keep = /b\n"
		   "[api-*]\n"
		   "when = peak\n"
		   "keep = /c",
		    false, &file, &err))
		fail_msg("%s", err.message);
	assert_int_equal(file.count, 3);
	const struct watch_section *const first = &file.sections[0];
	assert_string_equal(first->pattern, "redis-server");
	assert_int_equal(first->line, 3);
	assert_false(watch_section_is_pattern(first));
	assert_int_equal(first->settings.rule_count, 2);
	assert_string_equal(first->settings.rules[1].text, "every=15mins");
	assert_true(first->settings.activate);
	assert_int_equal(first->settings.trigger.cool_down_ms, 60000);
	assert_int_equal(first->settings.interval_ms, 2000);
	assert_string_equal(first->settings.keep, "/var/lib/a b");
	assert_int_equal(first->settings.limits.count, 3);
	assert_int_equal(first->settings.limits.bytes, 1 << 20);
	assert_int_equal(first->settings.limits.free_bytes, 2 << 20);
	assert_string_equal(first->settings.adopt, "/var/tmp/je");
	assert_string_equal(first->settings.then, "/bin/send --to 'x # y'");
	assert_int_equal(file.sections[1].number, 2);
	assert_int_equal(file.sections[2].number, 1);
	assert_true(watch_section_is_pattern(&file.sections[2]));
	/* What is not said has the defaults. */
	assert_int_equal(file.sections[2].settings.limits.count, 48);
	assert_int_equal(file.sections[2].settings.interval_ms, 1000);
}

static void errors_name_the_line(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *message;
	} cases[] = {
		{ "when = peak\n", "w:1: 'when' comes before any [TARGET]" },
		{ "\n[x\n", "w:2: '[x' does not end with ]" },
		{ "[]\n", "w:1: [] is not the name of a target" },
		{ "[x]\nkeep = /k\npeak\n", "w:3: 'peak' is neither [TARGET] nor WORD = VALUE" },
		{ "[x]\nwhn = peak\n", "w:2: unknown word 'whn'" },
		{ "[x]\nwhen = rss>lots\n", "w:2: when: 'lots' is not an amount of memory" },
		{ "[x]\nwhen =\n", "w:2: when: '' is not a condition" },
		{ "[x]\nkeep = here\n", "w:2: keep: 'here' does not begin with /" },
		{ "[x]\nkeep =\n", "w:2: keep: '' does not begin with /" },
		{ "[x]\nactivate = maybe\n", "w:2: activate: 'maybe' must be yes or no" },
		{ "[x]\nkeep-count = 0\n",
			"w:2: keep-count: '0' is not a number from 1 to 999999" },
		{ "[x]\nthen = 'a\n", "w:2: then: ''a': a closing quote is missing" },
		{ "[x]\ninterval = 1ms\n", "w:2: interval: the interval is at least 50ms" },
		{ "[x]\nkeep = /k\nkeep = /l\n", "w:3: keep is given twice for [x]" },
		{ "\n[x]\nkeep = /k\n", "w:2: [x]: no condition for captures" },
		{ "[x]\nwhen = peak\n", "w:1: [x] has no folder for captures" },
		{ "[x]\nwhen = peak\nkeep = /k\n\n[y]\nwhen = peak\nkeep = /k\n",
			"w:5: [y] keeps its captures in /k as the section in line 1 does" },
		{ "[api-*]\nkeep = /k\nadopt = /tmp/je\n",
			"w:1: [api-*] adopts files of one prefix for several targets" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		CLEANUP(watch_file_deinit) struct watch_file file = { 0 };
		struct error err = { 0 };
		assert_false(parse(cases[i].text, false, &file, &err));
		assert_string_equal(err.message, cases[i].message);
		assert_int_equal(err.kind, ERROR_INPUT);
	}
}

static void the_words_of_a_section_are_all_listed(void **state)
{
	(void)state;
	CLEANUP(watch_file_deinit) struct watch_file file = { 0 };
	struct error err = { 0 };

	assert_false(parse("[x]\nwhn = peak\n", false, &file, &err));
	assert_contains(err.hint, "use one of when, activate, ");
	assert_contains(err.hint, ", user, program");
}

static void a_history_takes_what_has_no_folder(void **state)
{
	(void)state;
	CLEANUP(watch_file_deinit) struct watch_file file = { 0 };
	struct error err = { 0 };

	assert_true(parse("[x]\nwhen = peak\n", true, &file, &err));
	assert_false(parse("[x]\nwhen = peak\nkeep-bytes = 1\n", true, &file, &err));
	assert_string_equal(err.message, "w:1: [x] has keep-bytes without keep");
	assert_false(parse("[x]\nadopt = /tmp/je\n", true, &file, &err));
	assert_string_equal(err.message, "w:1: [x] has adopt without keep");
}

static void what_is_no_text_is_refused(void **state)
{
	(void)state;
	CLEANUP(watch_file_deinit) struct watch_file file = { 0 };
	struct error err;
	char *const line = malloc(10000);

	assert_false(watch_file_parse("w", "[x]\n\0\n", 6, true, &file, &err));
	assert_string_equal(err.message, "w:2: it is not text");
	memset(line, '#', 10000);
	assert_false(watch_file_parse("w", line, 10000, true, &file, &err));
	assert_string_equal(err.message, "w:1: the line is too long");
	free(line);
}

static void a_file_that_others_may_change_is_refused(void **state)
{
	(void)state;
	static const char text[] = "[x]\nwhen = peak\n";
	CLEANUP(watch_file_deinit) struct watch_file file = { 0 };
	char path[] = "/tmp/hc-watch-file.XXXXXX";
	struct error err = { 0 };

	close(mkstemp(path));
	assert_true(file_write(path, text, sizeof text - 1, 0600, &err));
	assert_true(watch_file_read(path, true, &file, &err));
	assert_int_equal(chmod(path, 0620), 0);
	assert_false(watch_file_read(path, true, &file, &err));
	assert_int_equal(err.kind, ERROR_DENIED);
	assert_int_equal(chmod(path, 0600), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 0), 0);
		assert_false(watch_file_read(path, true, &file, &err));
		assert_int_equal(err.kind, ERROR_DENIED);
	}
	unlink(path);
	assert_false(watch_file_read(path, true, &file, &err));
	assert_false(watch_file_read("/tmp", true, &file, &err));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(sections_have_the_words_of_the_options),
	cmocka_unit_test(errors_name_the_line),
	cmocka_unit_test(the_words_of_a_section_are_all_listed),
	cmocka_unit_test(a_history_takes_what_has_no_folder),
	cmocka_unit_test(what_is_no_text_is_refused),
	cmocka_unit_test(a_file_that_others_may_change_is_refused),
};

UNIT_MAIN(tests)
