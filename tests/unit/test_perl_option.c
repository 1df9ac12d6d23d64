/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perl_option.h"

#include <string.h>

#include "unit.h"

enum { TEXT = 1, TOOLS, SHOW_BYTES, NODECOUNT, NODEFRACTION, CUM, SHOW, OUTPUT, TREE };

static const struct verb_option options[] = {
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

enum { CLASSIC = 6, MOST = 16 };

struct parsed {
	int ids[MOST];
	const char *values[MOST];
	bool negated[MOST];
	int count;
	size_t operand_count;
	char *argv[MOST];
	struct error err;
	bool failed;
};

static struct parsed parse(bool is_classic, const char *const *arguments)
{
	struct parsed parsed = { 0 };
	struct perl_option_parser parser;
	int argc = 1;

	parsed.argv[0] = (char *)(uintptr_t) "report";
	for (; arguments[argc - 1] != NULL; argc++)
		parsed.argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
	perl_option_begin(&parser, options, CLASSIC, argc, parsed.argv);
	parser.is_classic = is_classic;
	for (;;) {
		int id = 0;
		if (!perl_option_next(&parser, &id, &parsed.err)) {
			parsed.failed = true;
			break;
		}
		if (id == PERL_OPTION_END)
			break;
		parsed.ids[parsed.count] = id;
		parsed.values[parsed.count] = parser.value;
		parsed.negated[parsed.count++] = parser.is_negated;
	}
	parsed.operand_count = parser.operand_count;
	return parsed;
}

#define PARSE(...) parse(false, (const char *const[]){ __VA_ARGS__, NULL })
#define PARSE_CLASSIC(...) parse(true, (const char *const[]){ __VA_ARGS__, NULL })

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
	assert_contains(parsed.err.message, "--node can mean several");
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

static void knows_letters(void **state)
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
	assert_contains(PARSE("--frob").err.message, "--frob is unknown");
	assert_contains(PARSE("--nodecount").err.message, "--nodecount needs a value");
	assert_contains(PARSE("--text=1").err.message, "--text takes no value");
}

static void checks_numbers(void **state)
{
	(void)state;
	struct perl_option_parser parser = { .option = &options[3], .value = "12x" };
	struct error err = { 0 };
	long number = 7;
	double real = 0;

	assert_false(perl_option_integer(&parser, &number, &err));
	assert_int_equal(number, 7);
	assert_contains(err.message, "'12x' is not a number, which --nodecount needs");
	parser.value = "-3";
	assert_true(perl_option_integer(&parser, &number, &err));
	assert_int_equal(number, -3);
	parser.value = ".005";
	assert_true(perl_option_real(&parser, &real, &err));
	assert_true(real > 0.0049 && real < 0.0051);
	parser.value = "nan";
	assert_false(perl_option_real(&parser, &real, &err));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(takes_one_dash_or_two_in_any_case),
	cmocka_unit_test(takes_values_after_a_blank_or_an_equals_sign),
	cmocka_unit_test(takes_options_after_operands_and_keeps_their_order),
	cmocka_unit_test(ends_the_options_at_two_dashes),
	cmocka_unit_test(takes_what_is_unique_and_refuses_what_is_not),
	cmocka_unit_test(negates_switches),
	cmocka_unit_test(gives_short_forms_to_the_older_program_first),
	cmocka_unit_test(knows_letters),
	cmocka_unit_test(says_what_is_wrong),
	cmocka_unit_test(checks_numbers),
};

UNIT_MAIN(tests)
