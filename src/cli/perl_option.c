/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perl_option.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void perl_option_begin(struct perl_option_parser *parser, const struct verb_option *options,
	size_t classic_count, int argc, char **argv)
{
	*parser = (struct perl_option_parser){
		.options = options,
		.classic_count = classic_count,
		.argc = argc,
		.argv = argv,
		.at = 1,
	};
}

static int fold(char c)
{
	return c == '_' ? '-' : tolower((unsigned char)c);
}

enum match { MATCH_NONE, MATCH_START, MATCH_WHOLE };

/* How what was typed fits a name that has `prefix` before it. */
static enum match match_name(
	const char *prefix, const char *name, const char *typed, size_t typed_size)
{
	const size_t prefix_size = strlen(prefix);
	const size_t size = prefix_size + strlen(name);

	if (typed_size > size)
		return MATCH_NONE;
	for (size_t i = 0; i < typed_size; i++) {
		const char c = i < prefix_size ? prefix[i] : name[i - prefix_size];
		if (fold(typed[i]) != fold(c))
			return MATCH_NONE;
	}
	return typed_size == size ? MATCH_WHOLE : MATCH_START;
}

/* An option that what was typed may mean. */
struct candidate {
	const struct verb_option *option;
	bool is_negated;
	size_t count; /* options for which it may stand */
	bool is_whole;
};

static void consider(struct candidate *candidate, const struct verb_option *option, bool is_negated,
	enum match match)
{
	if (match == MATCH_NONE || (candidate->is_whole && match != MATCH_WHOLE))
		return;
	if (match == MATCH_WHOLE && !candidate->is_whole)
		*candidate = (struct candidate){ .is_whole = true };
	/* "no" and "no-" before the same name are one. */
	if (candidate->option == option && candidate->is_negated == is_negated)
		return;
	candidate->option = option;
	candidate->is_negated = is_negated;
	candidate->count++;
}

static struct candidate search(
	const struct verb_option *options, size_t count, const char *typed, size_t size)
{
	struct candidate candidate = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct verb_option *const option = &options[i];
		consider(&candidate, option, false, match_name("", option->name, typed, size));
		if (option->letter != 0 && size == 1 && typed[0] == option->letter)
			consider(&candidate, option, false, MATCH_WHOLE);
		if (option->argument != NULL)
			continue;
		consider(&candidate, option, true, match_name("no", option->name, typed, size));
		consider(&candidate, option, true, match_name("no-", option->name, typed, size));
	}
	return candidate;
}

static bool refuse(struct error *err, const char *problem, const char *typed, size_t size)
{
	return error_set(
		err, ERROR_USAGE, "option --%.*s %s", (int)(size > 60 ? 60 : size), typed, problem);
}

/*
 * Whole names of any option win, except that the older program's users keep its short forms; then
 * what is unique there; then what is unique at all.
 */
static bool find(struct perl_option_parser *parser, const char *typed, size_t size,
	struct candidate *ret, struct error *err)
{
	size_t all = 0;

	while (parser->options[all].id != 0)
		all++;
	const struct candidate classic =
		search(parser->options, parser->classic_count, typed, size);
	const struct candidate any = search(parser->options, all, typed, size);
	if (any.is_whole && !(parser->is_classic && classic.count == 1))
		*ret = any;
	else if (classic.count != 0)
		*ret = classic;
	else
		*ret = any;
	if (ret->count == 0)
		return refuse(err, "is unknown", typed, size);
	if (ret->count > 1)
		return refuse(err, "can mean several", typed, size);
	return true;
}

/* Moves an operand behind the ones that were found before, keeping their order. */
static void keep_operand(struct perl_option_parser *parser)
{
	char *const operand = parser->argv[parser->at];

	for (int i = parser->at; i > (int)parser->operand_count + 1; i--)
		parser->argv[i] = parser->argv[i - 1];
	parser->argv[++parser->operand_count] = operand;
	parser->at++;
}

static bool is_operand(const struct perl_option_parser *parser, const char *argument)
{
	return parser->past_dashes || argument[0] != '-' || argument[1] == '\0';
}

static bool take_value(
	struct perl_option_parser *parser, const char *typed, const char *equals, struct error *err)
{
	const size_t size = equals == NULL ? strlen(typed) : (size_t)(equals - typed);

	parser->value = NULL;
	if (parser->option->argument == NULL)
		return equals == NULL || refuse(err, "takes no value", typed, size);
	if (equals != NULL) {
		parser->value = equals + 1;
		return true;
	}
	if (parser->at == parser->argc)
		return refuse(err, "needs a value", typed, size);
	parser->value = parser->argv[parser->at++];
	return true;
}

bool perl_option_next(struct perl_option_parser *parser, int *id, struct error *err)
{
	for (; parser->at < parser->argc;) {
		const char *const argument = parser->argv[parser->at];
		if (is_operand(parser, argument)) {
			keep_operand(parser);
			continue;
		}
		parser->at++;
		if (strcmp(argument, "--") == 0) {
			parser->past_dashes = true;
			continue;
		}
		const char *const typed = argument + 1 + (argument[1] == '-');
		const char *const equals = strchr(typed, '=');
		const size_t size = equals == NULL ? strlen(typed) : (size_t)(equals - typed);
		struct candidate found;
		if (!find(parser, typed, size, &found, err))
			return false;
		parser->option = found.option;
		parser->is_negated = found.is_negated;
		*id = found.option->id;
		return take_value(parser, typed, equals, err);
	}
	*id = PERL_OPTION_END;
	return true;
}

static bool not_a_number(const struct perl_option_parser *parser, struct error *err)
{
	return error_set(err, ERROR_USAGE, "'%.60s' is not a number, which --%s needs",
		parser->value, parser->option->name);
}

bool perl_option_integer(const struct perl_option_parser *parser, long *number, struct error *err)
{
	char *end = NULL;

	errno = 0;
	const long value = strtol(parser->value, &end, 10);
	if (end == parser->value || *end != '\0' || errno != 0)
		return not_a_number(parser, err);
	*number = value;
	return true;
}

bool perl_option_real(const struct perl_option_parser *parser, double *number, struct error *err)
{
	char *end = NULL;

	errno = 0;
	const double value = strtod(parser->value, &end);
	if (end == parser->value || *end != '\0' || errno != 0 || value != value)
		return not_a_number(parser, err);
	*number = value;
	return true;
}
