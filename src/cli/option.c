/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/option.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/help.h"

void option_begin(struct option_parser *parser, const struct verb *verb, int argc, char **argv)
{
	*parser = (struct option_parser){
		.verb = verb,
		.argc = argc,
		.argv = argv,
		.at = 1,
		.operands = argv + 1,
	};
}

static int stop(struct option_parser *parser, int exit_code)
{
	parser->exit_code = exit_code;
	return OPTION_STOP;
}

static bool is_dash(char c)
{
	return c == '-' || c == '_';
}

/* Whether `name` is what was typed (`size` bytes), or begins with it. */
static bool begins_with(const char *name, const char *typed, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (name[i] != typed[i] && !(is_dash(name[i]) && is_dash(typed[i])))
			return false;
	}
	return true;
}

static const struct verb_option help_option = { .id = -2, .name = "help" };

/* The option of that name, or the only one that begins so. `*matches` counts candidates. */
static const struct verb_option *find_long(
	const struct verb *verb, const char *typed, size_t size, size_t *matches)
{
	const struct verb_option *found = NULL;

	*matches = 0;
	for (const struct verb_option *o = verb->options; o != NULL && o->id != 0; o++) {
		if (!begins_with(o->name, typed, size))
			continue;
		if (o->name[size] == '\0') {
			*matches = 1;
			return o;
		}
		if (o->is_hidden)
			continue;
		found = o;
		++*matches;
	}
	if (begins_with(help_option.name, typed, size)) {
		found = &help_option;
		*matches = help_option.name[size] == '\0' ? 1 : *matches + 1;
	}
	return *matches == 1 ? found : NULL;
}

static int accept(struct option_parser *parser, const struct verb_option *option)
{
	if (option == &help_option) {
		help_print(parser->verb, stdout);
		return stop(parser, EXIT_DONE);
	}
	parser->option = option;
	/* What follows would name it in its error by nothing. */
	if (parser->value != NULL && *parser->value == '\0' &&
		(strcmp(option->argument, "FILE") == 0 || strcmp(option->argument, "FOLDER") == 0))
		return stop(
			parser, verb_usage(parser->verb, "--%s: the name is empty", option->name));
	return option->id;
}

static int missing_value(struct option_parser *parser, const struct verb_option *option)
{
	return stop(parser,
		verb_usage(parser->verb, "--%s needs a value: %s", option->name, option->argument));
}

static int next_long(struct option_parser *parser, const char *typed)
{
	const char *const equals = strchr(typed, '=');
	const size_t size = equals == NULL ? strlen(typed) : (size_t)(equals - typed);
	size_t matches;
	const struct verb_option *const option = find_long(parser->verb, typed, size, &matches);

	if (option == NULL)
		return stop(parser, verb_usage(parser->verb,
					    matches == 0 ? "there is no option --%.*s"
							 : "--%.*s is short for several options",
					    (int)size, typed));
	parser->value = NULL;
	if (option->argument == NULL && equals != NULL)
		return stop(parser, verb_usage(parser->verb, "--%s takes no value", option->name));
	if (option->argument == NULL)
		return accept(parser, option);
	if (equals != NULL)
		parser->value = equals + 1;
	else if (parser->at < parser->argc)
		parser->value = parser->argv[parser->at++];
	else
		return missing_value(parser, option);
	return accept(parser, option);
}

static const struct verb_option *find_letter(const struct verb *verb, char letter)
{
	for (const struct verb_option *o = verb->options; o != NULL && o->id != 0; o++) {
		if (o->letter == letter)
			return o;
	}
	return letter == 'h' ? &help_option : NULL;
}

static int next_letter(struct option_parser *parser)
{
	const char letter = *parser->letters++;
	const struct verb_option *const option = find_letter(parser->verb, letter);
	const char *const rest = parser->letters;

	if (*rest == '\0' || (option != NULL && option->argument != NULL))
		parser->letters = NULL;
	if (option == NULL)
		return stop(parser, verb_usage(parser->verb, "there is no option -%c", letter));
	parser->value = NULL;
	if (option->argument == NULL)
		return accept(parser, option);
	if (*rest != '\0')
		parser->value = rest;
	else if (parser->at < parser->argc)
		parser->value = parser->argv[parser->at++];
	else
		return missing_value(parser, option);
	return accept(parser, option);
}

/* Whether "-text" is to be read as "--text": only where Perl's programs do, and it is a name. */
static bool is_one_dash_name(const struct verb *verb, const char *typed)
{
	size_t matches;

	if (!verb->has_perl_options || typed[1] == '\0')
		return false;
	(void)find_long(verb, typed, strcspn(typed, "="), &matches);
	return matches > 0;
}

static void take_operand(struct option_parser *parser, char *operand)
{
	parser->operands[parser->operand_count++] = operand;
	if (parser->verb->stops_at_operand)
		parser->past_dashes = true;
}

static int end(struct option_parser *parser)
{
	const struct verb *const verb = parser->verb;

	if (parser->operand_count > verb->max_operands)
		return stop(parser,
			verb_usage(verb, "'%s' is one argument too many; usage: heapctl %s %s",
				parser->operands[verb->max_operands], verb->name,
				verb->arguments));
	if (parser->operand_count < verb->min_operands)
		return stop(parser, verb_usage(verb, "an argument is missing; usage: heapctl %s %s",
					    verb->name, verb->arguments));
	return OPTION_END;
}

int option_next(struct option_parser *parser)
{
	if (parser->letters != NULL)
		return next_letter(parser);
	while (parser->at < parser->argc) {
		char *const argument = parser->argv[parser->at++];

		if (parser->past_dashes || argument[0] != '-' || argument[1] == '\0')
			take_operand(parser, argument);
		else if (strcmp(argument, "--") == 0)
			parser->past_dashes = true;
		else if (argument[1] == '-')
			return next_long(parser, argument + 2);
		else if (is_one_dash_name(parser->verb, argument + 1))
			return next_long(parser, argument + 1);
		else {
			parser->letters = argument + 1;
			return next_letter(parser);
		}
	}
	return end(parser);
}

int option_refuse(struct option_parser *parser, const char *format, ...)
{
	char why[300];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, sizeof why, format, arguments);
	va_end(arguments);
	parser->exit_code = verb_usage(parser->verb, "--%s: %s", parser->option->name, why);
	return parser->exit_code;
}

int option_refuse_error(struct option_parser *parser, const struct error *err)
{
	parser->exit_code = verb_usage(parser->verb, "--%s: %s%s%s", parser->option->name,
		err->message, err->hint[0] == '\0' ? "" : "; ", err->hint);
	return parser->exit_code;
}

bool option_number(struct option_parser *parser, int64_t least, int64_t most, int64_t *number)
{
	char *rest;

	errno = 0;
	const long long value = strtoll(parser->value, &rest, 10);
	if (*parser->value == '\0' || *rest != '\0') {
		option_refuse(parser, "'%s' is not a whole number", parser->value);
		return false;
	}
	if (errno != 0 || value < least || value > most) {
		option_refuse(parser, "%s is outside %lld to %lld", parser->value, (long long)least,
			(long long)most);
		return false;
	}
	*number = value;
	return true;
}
