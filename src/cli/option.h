/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing of a verb's command line after its option table.
 *
 * Options and operands may be mixed; "--" ends the options, "-" is an operand. A long name may be
 * shortened as far as it stays unique; upper and lower case, '_' and '-' in it are the same. Its
 * value follows as the next argument or after '='. Letters may be bundled. --help and wrong
 * command lines are dealt with here.
 *
 *	struct dump_request request = { 0 };
 *	struct option_parser parser;
 *	if (!option_parse(&parser, verb, argc, argv, &request))
 *		return parser.exit_code;
 *	... request.path, parser.operands[0 .. parser.operand_count - 1]
 *
 * Options that mean more than a value in the request are read one by one:
 *
 *	option_begin(&parser, verb, argc, argv, &request);
 *	for (int id; (id = option_next(&parser)) != OPTION_END;) {
 *		switch (id) {
 *		case OPTION_SORT:
 *			...
 *			break;
 *		default:
 *			return parser.exit_code;
 *		}
 *	}
 *
 * A verb with `has_perl_options` is parsed as Perl's Getopt::Long does, which users and scripts of
 * jeprof are used to: a name has one dash or two, and "no" or "no-" in front of a switch negates
 * it. Where its options begin with those of an older program (`classic_count`), what was unique
 * there stays so: a shortened name is looked up among these first.
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
	void *request;
	size_t classic_count;
	bool prefers_classic; /* abbreviations of the older program keep their meaning */
	int argc;
	char **argv;
	int at;		     /* in argv: what comes next */
	const char *letters; /* rest of a bundle such as -abc; NULL outside one */
	bool past_dashes;
	int exit_code;

	const struct verb_option *option; /* the one that was read last */
	const char *value;		  /* its value, NULL when it takes none */
	bool is_negated;
	char **operands;      /* in argv, which gets reordered */
	size_t operand_count; /* complete once OPTION_END was returned */
};

/* `request` is what the verb's options are stored in; NULL where none is stored. */
void option_begin(struct option_parser *parser, const struct verb *verb, int argc, char **argv,
	void *request);

/* All of it, of a verb whose options are all stored. False: return parser.exit_code. */
bool option_parse(struct option_parser *parser, const struct verb *verb, int argc, char **argv,
	void *request);

/* The id of the next option, OPTION_END or OPTION_STOP. */
int option_next(struct option_parser *parser);

/*
 * The same without printing: ERROR_USAGE where the command line is wrong. --help is the verb's own
 * option.
 */
MUST_CHECK bool option_read(struct option_parser *parser, int *id, struct error *err);

/* The value of the option as a decimal number; ERROR_USAGE when it is none, or outside the limits.
 */
MUST_CHECK bool option_integer(const struct option_parser *parser, int64_t min, int64_t max,
	int64_t *number, struct error *err);
MUST_CHECK bool option_real(const struct option_parser *parser, double min, double max,
	double *number, struct error *err);

/* The value as a word of the option's list: its position, into an enum. */
MUST_CHECK bool option_word(const struct option_parser *parser, void *value, struct error *err);

/* The value of the current option is wrong: says why; returns (and sets) the exit code. */
int option_refuse(struct option_parser *parser, const char *format, ...) PRINTF_FORMAT(2, 3);

/* The same, with the hint of the error. */
int option_refuse_error(struct option_parser *parser, const struct error *err);
