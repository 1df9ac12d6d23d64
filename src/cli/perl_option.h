/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing of a command line as Perl's Getopt::Long does, which is what users and scripts of jeprof
 * are used to:
 *
 *  - one dash or two; options and operands may be mixed; "--" ends the options, "-" is an operand;
 *  - upper and lower case are the same, and so are '_' and '-';
 *  - a name may be shortened as far as it stays unique;
 *  - a value follows after '=' or as the next argument, whatever that looks like;
 *  - a switch is negated by "no" or "no-" in front of it.
 *
 * Where the options begin with those of an older program (`classic_count`), what was unique there
 * stays so: a shortened name is looked up among these first.
 */
#pragma once

#include "cli/verb.h"

struct perl_option_parser {
	const struct verb_option *options; /* ends with id 0 */
	size_t classic_count;
	bool is_classic; /* a name that the older program knows shortened is taken so */
	int argc;
	char **argv; /* gets reordered: operands first */
	int at;
	bool past_dashes;

	const struct verb_option *option;
	const char *value; /* NULL when it takes none */
	bool is_negated;
	size_t operand_count; /* in argv[1..] once everything is read */
};

enum { PERL_OPTION_END = 0 };

/* The options and argv are borrowed until the end of the parsing. */
void perl_option_begin(struct perl_option_parser *parser, const struct verb_option *options,
	size_t classic_count, int argc, char **argv);

/* Writes the next option's id, PERL_OPTION_END after the last. Fails with ERROR_USAGE. */
MUST_CHECK bool perl_option_next(struct perl_option_parser *parser, int *id, struct error *err);

/* The value of the option as a number; ERROR_USAGE when it is none. */
MUST_CHECK bool perl_option_integer(
	const struct perl_option_parser *parser, long *number, struct error *err);
MUST_CHECK bool perl_option_real(
	const struct perl_option_parser *parser, double *number, struct error *err);
