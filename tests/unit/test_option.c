/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/option.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { OPTION_FLAG = 1, OPTION_VALUE, OPTION_VERBOSE, OPTION_VERSION };

static const struct verb_option options[] = {
	{ OPTION_FLAG, "show-bytes", 'b', NULL, .help = "" },
	{ OPTION_VALUE, "output", 'o', "FILE", .help = "" },
	{ OPTION_VALUE, "folder", 0, "FOLDER", .help = "" },
	{ OPTION_VALUE, "place", 0, "DIR", .help = "" },
	{ OPTION_VERBOSE, "verbose", 0, NULL, .help = "" },
	{ OPTION_VERSION, "version", 0, NULL, .help = "" },
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
	option_begin(&parser, verb, argc, argv, NULL);
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
	assert_parsed(&plain, "stop 2", "--folder", "");
	assert_parsed(&plain, "stop 2", "--place", "");
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

/* Verbs with jeprof's options. */

enum { TEXT = 1, TOOLS, SHOW_BYTES, NODECOUNT, NODEFRACTION, CUM, SHOW, OUTPUT, TREE };

static const struct verb_option perl_options[] = {
	{ TEXT, "text", 0, NULL, .help = "" },
	{ TOOLS, "tools", 0, "T", .help = "" },
	{ SHOW_BYTES, "show_bytes", 0, NULL, .help = "" },
	{ NODECOUNT, "nodecount", 0, "N", .help = "" },
	{ NODEFRACTION, "nodefraction", 0, "F", .help = "" },
	{ CUM, "cum", 0, NULL, .help = "" },
	/* Ours. */
	{ SHOW, "show", 0, "REGEX", .help = "" },
	{ OUTPUT, "output", 'o', "FILE", .help = "" },
	{ TREE, "tree", 0, NULL, .help = "" },
	{ 0 },
};

enum { CLASSIC = 6, ARGUMENTS_MAX = 16 };

static const struct verb perl = { .name = "report",
	.arguments = "",
	.summary = "",
	.description = "",
	.options = perl_options,
	.max_operands = SIZE_MAX,
	.has_perl_options = true };

struct parsed {
	int ids[ARGUMENTS_MAX];
	const char *values[ARGUMENTS_MAX];
	bool negated[ARGUMENTS_MAX];
	int count;
	size_t operand_count;
	char *argv[ARGUMENTS_MAX];
	struct error err;
	bool failed;
};

static struct parsed parse_perl(bool is_classic, const char *const *arguments)
{
	struct parsed parsed = { 0 };
	struct option_parser parser;
	int argc = 1;

	parsed.argv[0] = (char *)(uintptr_t) "report";
	for (; arguments[argc - 1] != NULL; argc++)
		parsed.argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
	option_begin(&parser, &perl, argc, parsed.argv, NULL);
	parser.classic_count = CLASSIC;
	parser.prefers_classic = is_classic;
	for (;;) {
		int id = 0;
		if (!option_read(&parser, &id, &parsed.err)) {
			parsed.failed = true;
			break;
		}
		if (id == OPTION_END)
			break;
		parsed.ids[parsed.count] = id;
		parsed.values[parsed.count] = parser.value;
		parsed.negated[parsed.count++] = parser.is_negated;
	}
	parsed.operand_count = parser.operand_count;
	return parsed;
}

#define PARSE(...) parse_perl(false, (const char *const[]){ __VA_ARGS__, NULL })
#define PARSE_CLASSIC(...) parse_perl(true, (const char *const[]){ __VA_ARGS__, NULL })

static void takes_one_dash_or_two_in_any_case(void **state)
{
	(void)state;
	const struct parsed parsed = PARSE("-text", "--CUM", "--Show-Bytes");
	assert_int_equal(parsed.count, 3);
	assert_int_equal(parsed.ids[0], TEXT);
	assert_int_equal(parsed.ids[1], CUM);
	assert_int_equal(parsed.ids[2], SHOW_BYTES);
}

static void takes_values_after_a_blank_or_an_equals_sign(void **state)
{
	(void)state;
	const struct parsed parsed = PARSE("--nodecount", "5", "-nodecount=6", "--tools", "-x");
	assert_int_equal(parsed.count, 3);
	assert_string_equal(parsed.values[0], "5");
	assert_string_equal(parsed.values[1], "6");
	assert_string_equal(parsed.values[2], "-x");
}

static void takes_options_after_operands_and_keeps_their_order(void **state)
{
	(void)state;
	const struct parsed parsed = PARSE("a", "--text", "b", "--nodecount", "1", "-", "c");
	assert_int_equal(parsed.count, 2);
	assert_int_equal(parsed.operand_count, 4);
	assert_string_equal(parsed.argv[1], "a");
	assert_string_equal(parsed.argv[2], "b");
	assert_string_equal(parsed.argv[3], "-");
	assert_string_equal(parsed.argv[4], "c");
}

static void ends_the_options_at_two_dashes(void **state)
{
	(void)state;
	const struct parsed parsed = PARSE("--", "--text");
	assert_int_equal(parsed.count, 0);
	assert_int_equal(parsed.operand_count, 1);
	assert_string_equal(parsed.argv[1], "--text");
}

static void takes_what_is_unique_and_refuses_what_is_not(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--nodec", "1").ids[0], NODECOUNT);
	assert_int_equal(PARSE("--te").ids[0], TEXT);
	const struct parsed parsed = PARSE("--node", "1");
	assert_true(parsed.failed);
	assert_int_equal(parsed.err.kind, ERROR_USAGE);
	assert_contains(parsed.err.message, "--node is ambiguous");
}

static void negates_switches(void **state)
{
	(void)state;
	assert_true(PARSE("--nocum").negated[0]);
	assert_true(PARSE("--no-cum").negated[0]);
	assert_int_equal(PARSE("--no-show-bytes").ids[0], SHOW_BYTES);
	assert_true(PARSE("--notools").failed);
}

static void gives_short_forms_to_the_older_program_first(void **state)
{
	(void)state;
	/* --show is all of one of ours, and short for one of jeprof's. */
	assert_int_equal(PARSE("--show", "x").ids[0], SHOW);
	assert_int_equal(PARSE_CLASSIC("--show").ids[0], SHOW_BYTES);
	/* --t begins one of ours, too, but was ambiguous before. */
	assert_true(PARSE("--t").failed);
	assert_int_equal(PARSE("--tr").ids[0], TREE);
	assert_int_equal(PARSE_CLASSIC("--tree").ids[0], TREE);
	assert_int_equal(PARSE("--sh").ids[0], SHOW_BYTES);
}

static void knows_letters_as_perl_does(void **state)
{
	(void)state;
	const struct parsed parsed = PARSE("-o", "file", "-o=-");
	assert_int_equal(parsed.ids[0], OUTPUT);
	assert_string_equal(parsed.values[0], "file");
	assert_string_equal(parsed.values[1], "-");
}

static void says_what_is_wrong(void **state)
{
	(void)state;
	assert_contains(PARSE("--frob").err.message, "unknown option --frob");
	assert_contains(PARSE("--nodecount").err.message, "--nodecount needs a value");
	assert_contains(PARSE("--text=1").err.message, "--text takes no value");
}

static void checks_numbers(void **state)
{
	(void)state;
	struct option_parser parser = { .option = &perl_options[3], .value = "12x" };
	struct error err = { 0 };
	int64_t number = 7;
	double real = 0;

	assert_false(option_integer(&parser, INT64_MIN, INT64_MAX, &number, &err));
	assert_int_equal(number, 7);
	assert_contains(err.message, "--nodecount: '12x' is not a whole number");
	parser.value = "-3";
	assert_true(option_integer(&parser, INT64_MIN, INT64_MAX, &number, &err));
	assert_int_equal(number, -3);
	parser.value = ".005";
	assert_true(option_real(&parser, 0, 1, &real, &err));
	assert_true(real > 0.0049 && real < 0.0051);
	parser.value = "5e-3";
	assert_true(option_real(&parser, 0, 1, &real, &err));
	parser.value = "5";
	assert_false(option_real(&parser, 0, 1, &real, &err));
	assert_contains(err.message, "--nodecount: 5 is outside 0 to 1");
}

static void refuses_what_is_no_decimal_number(void **state)
{
	static const char *const wrong[] = { "", " 1", "1 ", "1x", "0x1", "nan", "inf", "-inf",
		"1e", "--1" };
	struct option_parser parser = { .option = &perl_options[3] };
	struct error err = { 0 };
	int64_t number = 7;
	double real = 7;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		parser.value = wrong[i];
		if (option_integer(&parser, INT64_MIN, INT64_MAX, &number, &err))
			fail_msg("accepted the whole number '%s'", wrong[i]);
		if (option_real(&parser, -1e9, 1e9, &real, &err))
			fail_msg("accepted the number '%s'", wrong[i]);
	}
	assert_int_equal(number, 7);
	assert_true(real > 6.9 && real < 7.1);
}

struct request {
	int64_t before;
	bool is_on, other;
	enum { LEVEL_LOW, LEVEL_HIGH = 7 } level;
	const char *path;
	int64_t count, duration_ms;
	size_t rows;
	double share, divisor;
};

static const char *const level_names[] = { "low", "medium", NULL };

static const struct verb_option stored[] = {
	{ .name = "on", .letter = 'n', OPTION_SWITCH(struct request, is_on) },
	{ .name = "high",
		.store = OPTION_STORE_CHOICE,
		.offset = offsetof(struct request, level),
		.min = LEVEL_HIGH },
	{ 0, "path", 'p', "PATH", OPTION_TEXT(struct request, path) },
	{ 0, "count", 0, "N", OPTION_NUMBER(struct request, count, -1, 5) },
	{ 0, "duration", 0, "TIME", OPTION_DURATION(struct request, duration_ms) },
	{ 0, "rows", 0, "N", OPTION_COUNT(struct request, rows) },
	{ 0, "share", 0, "F", OPTION_REAL(struct request, share, 0, 1) },
	{ 0, "divide-by", 0, "N", OPTION_REAL(struct request, divisor, 0, 9),
		.is_above_min = true },
	{ .name = "level",
		.argument = "LEVEL",
		.store = OPTION_STORE_WORD,
		.offset = offsetof(struct request, level),
		.words = level_names },
	{ 0, "an-old-name", 0, "N", .is_hidden = true, OPTION_COUNT(struct request, rows) },
	{ OPTION_FLAG, "flag", .help = "" },
	{ 0 },
};

static const struct verb storing = {
	.name = "test",
	.arguments = "",
	.options = stored,
	.max_operands = 1,
};

static void stores_values_in_the_request(void **state)
{
	char words[][24] = { "verb", "--duration=2mins", "-np", "x", "--flag", "operand", "--high",
		"--count", "-1" };
	char *argv[sizeof words / sizeof words[0]];
	struct request request = { .before = 1, .path = "old" };
	struct option_parser parser;

	(void)state;
	for (size_t i = 0; i < sizeof argv / sizeof argv[0]; i++)
		argv[i] = words[i];
	option_begin(&parser, &storing, sizeof argv / sizeof argv[0], argv, &request);
	assert_int_equal(option_next(&parser), OPTION_FLAG);
	assert_int_equal(option_next(&parser), OPTION_END);
	assert_int_equal(parser.operand_count, 1);
	assert_int_equal(request.before, 1);
	assert_true(request.is_on && !request.other);
	assert_int_equal(request.level, LEVEL_HIGH);
	assert_string_equal(request.path, "x");
	assert_int_equal(request.count, -1);
	assert_int_equal(request.duration_ms, 120000);
}

static void stores_counts_shares_and_words(void **state)
{
	char words[][24] = { "verb", "--rows=12", "--share", "0.25", "--divide-by=8",
		"--level=LOW" };
	char *argv[sizeof words / sizeof words[0]];
	struct request request = { .level = LEVEL_HIGH };
	struct option_parser parser;

	(void)state;
	for (size_t i = 0; i < sizeof argv / sizeof argv[0]; i++)
		argv[i] = words[i];
	assert_true(option_parse(&parser, &storing, sizeof argv / sizeof argv[0], argv, &request));
	assert_int_equal(request.rows, 12);
	assert_true(request.share == 0.25 && request.divisor == 8);
	assert_int_equal(request.level, LEVEL_LOW);
}

static void leaves_the_request_where_a_value_is_wrong(void **state)
{
	static const char *const wrong[] = { "--count=6", "--count=x", "--duration=0s",
		"--duration=2days", "--path", "--rows=-1", "--rows=2147483648", "--share=1.1",
		"--divide-by=0", "--level=up", "--an-old=1" };

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		char name[] = "verb", word[32];
		char *argv[] = { name, strcpy(word, wrong[i]) };
		struct request request = {
			.path = "old", .count = 3, .duration_ms = 4, .rows = 5, .divisor = 6
		};
		struct option_parser parser;
		assert_false(option_parse(&parser, &storing, 2, argv, &request));
		assert_int_equal(parser.exit_code, EXIT_USAGE);
		assert_string_equal(request.path, "old");
		assert_int_equal(request.count, 3);
		assert_int_equal(request.duration_ms, 4);
		assert_int_equal(request.rows, 5);
		assert_true(request.divisor == 6 && request.share == 0);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(mixes_options_and_operands),
	cmocka_unit_test(knows_letters),
	cmocka_unit_test(shortens_names_that_stay_unique),
	cmocka_unit_test(ends_options_at_two_dashes),
	cmocka_unit_test(counts_operands),
	cmocka_unit_test(leaves_the_command_of_run_alone),
	cmocka_unit_test(takes_one_dash_or_two_in_any_case),
	cmocka_unit_test(takes_values_after_a_blank_or_an_equals_sign),
	cmocka_unit_test(takes_options_after_operands_and_keeps_their_order),
	cmocka_unit_test(ends_the_options_at_two_dashes),
	cmocka_unit_test(takes_what_is_unique_and_refuses_what_is_not),
	cmocka_unit_test(negates_switches),
	cmocka_unit_test(gives_short_forms_to_the_older_program_first),
	cmocka_unit_test(knows_letters_as_perl_does),
	cmocka_unit_test(says_what_is_wrong),
	cmocka_unit_test(checks_numbers),
	cmocka_unit_test(refuses_what_is_no_decimal_number),
	cmocka_unit_test(stores_values_in_the_request),
	cmocka_unit_test(stores_counts_shares_and_words),
	cmocka_unit_test(leaves_the_request_where_a_value_is_wrong),
};
UNIT_MAIN(tests)
