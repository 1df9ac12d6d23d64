/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing of a verb's command line after its option table.
 *
 * Options and operands may be mixed; "--" ends the options. A long name may be shortened as far
 * as it stays unique, '_' and '-' in it are the same, its value follows as the next argument or
 * after '='. Letters may be bundled. --help and wrong command lines are dealt with here.
 *
 *	struct option_parser parser;
 *	option_begin(&parser, verb, argc, argv);
 *	for (int id; (id = option_next(&parser)) != OPTION_END;) {
 *		switch (id) {
 *		case OPTION_JSON:
 *			as_json = true;
 *			break;
 *		default:
 *			return parser.exit_code;
 *		}
 *	}
 *	... parser.operands[0 .. parser.operand_count - 1]
 */
#pragma once

#include <stdint.h>

#include "cli/verb.h"

enum {
	OPTION_END = 0,
	OPTION_STOP = -1, /* help was printed, or what is wrong was: leave with exit_code */
};

struct option_parser {
	const struct verb *verb;
	int argc;
	char **argv;
	int at;		     /* in argv: what comes next */
	const char *letters; /* rest of a bundle such as -abc; NULL outside one */
	bool past_dashes;
	int exit_code;

	const struct verb_option *option; /* the one that option_next returned */
	const char *value;		  /* its value, NULL when it takes none */
	char **operands;		  /* in argv, which gets reordered */
	size_t operand_count;		  /* complete once OPTION_END was returned */
};

void option_begin(struct option_parser *parser, const struct verb *verb, int argc, char **argv);

/* The id of the next option, OPTION_END or OPTION_STOP. */
int option_next(struct option_parser *parser);

/*
 * The value of the current option as a number from `least` to `most`. On failure it says so on
 * stderr and sets the exit code: return parser.exit_code.
 */
MUST_CHECK bool option_number(
	struct option_parser *parser, int64_t least, int64_t most, int64_t *number);

/* The value of the current option is wrong: says why; returns (and sets) the exit code. */
int option_refuse(struct option_parser *parser, const char *format, ...) PRINTF_FORMAT(2, 3);

/* The same, with the hint of the error. */
int option_refuse_error(struct option_parser *parser, const struct error *err);
