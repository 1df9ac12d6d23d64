/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/option.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { OPTION_FLAG = 1, OPTION_VALUE, OPTION_VERBOSE, OPTION_VERSION };

static const struct verb_option options[] = {
	{ OPTION_FLAG, "show-bytes", 'b', NULL, "", NULL, NULL, false },
	{ OPTION_VALUE, "output", 'o', "FILE", "", NULL, NULL, false },
	{ OPTION_VERBOSE, "verbose", 0, NULL, "", NULL, NULL, false },
	{ OPTION_VERSION, "version", 0, NULL, "", NULL, NULL, false },
	{ 0 },
};

static const struct verb plain = {
	.name = "test",
	.arguments = "",
	.summary = "",
	.description = "",
	.options = options,
	.min_operands = 0,
	.max_operands = 3,
};

/* What was parsed, as text: "b o=x | operand operand", and "stop N" where it ended early. */
static const char *parse(const struct verb *verb, char **argv)
{
	static char seen[256];
	struct option_parser parser;
	int argc = 0;

	while (argv[argc] != NULL)
		argc++;
	seen[0] = '\0';
	option_begin(&parser, verb, argc, argv);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id == OPTION_STOP) {
			const size_t size = strlen(seen);
			snprintf(seen + size, sizeof seen - size, "stop %d", parser.exit_code);
			return seen;
		}
		strcat(seen, parser.option->name);
		if (parser.value != NULL) {
			strcat(seen, "=");
			strcat(seen, parser.value);
		}
		strcat(seen, " ");
	}
	strcat(seen, "|");
	for (size_t i = 0; i < parser.operand_count; i++) {
		strcat(seen, " ");
		strcat(seen, parser.operands[i]);
	}
	return seen;
}

#define assert_parsed(verb, text, ...)                             \
	do {                                                       \
		static char words[][24] = { "verb", __VA_ARGS__ }; \
		enum { COUNT = sizeof words / sizeof words[0] };   \
		char *argv[COUNT + 1] = { 0 };                     \
		for (size_t i_ = 0; i_ < COUNT; i_++)              \
			argv[i_] = words[i_];                      \
		assert_string_equal(parse(verb, argv), text);      \
	} while (0)

static void mixes_options_and_operands(void **state)
{
	(void)state;
	assert_parsed(
		&plain, "show-bytes output=x | a b", "a", "--show-bytes", "b", "--output", "x");
	assert_parsed(&plain, "output=a=b |", "--output=a=b");
	assert_parsed(&plain, "stop 2", "--output=");
	assert_parsed(&plain, "stop 2", "-o", "");
}

static void knows_letters(void **state)
{
	(void)state;
	assert_parsed(&plain, "show-bytes output=x |", "-bo", "x");
	assert_parsed(&plain, "show-bytes output=x |", "-box");
	assert_parsed(&plain, "show-bytes | -", "-b", "-");
	assert_parsed(&plain, "stop 2", "-q");
	assert_parsed(&plain, "stop 2", "-o");
}

static void shortens_names_that_stay_unique(void **state)
{
	(void)state;
	assert_parsed(&plain, "show-bytes |", "--show");
	assert_parsed(&plain, "show-bytes |", "--show_bytes");
	assert_parsed(&plain, "stop 2", "--ver");
	assert_parsed(&plain, "verbose |", "--verb");
	assert_parsed(&plain, "stop 2", "--nothing");
	assert_parsed(&plain, "stop 2", "--show-bytes=1");
}

static void ends_options_at_two_dashes(void **state)
{
	(void)state;
	assert_parsed(&plain, "| -b --x", "--", "-b", "--x");
}

static void counts_operands(void **state)
{
	(void)state;
	static const struct verb one = { .name = "one",
		.arguments = "X",
		.summary = "",
		.description = "",
		.min_operands = 1,
		.max_operands = 1 };

	assert_parsed(&one, "stop 2", "a", "b");
	assert_parsed(&one, "stop 2", "--");
	assert_parsed(&one, "| a", "a");
}

static void leaves_the_command_of_run_alone(void **state)
{
	(void)state;
	static const struct verb run = { .name = "run",
		.arguments = "CMD...",
		.summary = "",
		.description = "",
		.options = options,
		.min_operands = 1,
		.max_operands = 9,
		.stops_at_operand = true };

	assert_parsed(
		&run, "show-bytes | cmd -b --help -- x", "-b", "cmd", "-b", "--help", "--", "x");
	assert_parsed(&run, "| cmd --", "--", "cmd", "--");
}

static void reads_one_dash_as_perl_does(void **state)
{
	(void)state;
	static const struct verb perl = { .name = "perl",
		.arguments = "",
		.summary = "",
		.description = "",
		.options = options,
		.max_operands = 9,
		.has_perl_options = true };

	assert_parsed(&perl, "show-bytes output=x |", "-show_bytes", "-output=x");
	assert_parsed(&perl, "show-bytes |", "-b");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(mixes_options_and_operands),
	cmocka_unit_test(knows_letters),
	cmocka_unit_test(shortens_names_that_stay_unique),
	cmocka_unit_test(ends_options_at_two_dashes),
	cmocka_unit_test(counts_operands),
	cmocka_unit_test(leaves_the_command_of_run_alone),
	cmocka_unit_test(reads_one_dash_as_perl_does),
};
UNIT_MAIN(tests)
