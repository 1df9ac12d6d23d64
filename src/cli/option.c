/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/option.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "base/xalloc.h"

void option_begin(
	struct option_parser *parser, const struct verb *verb, int argc, char **argv, void *request)
{
	*parser = (struct option_parser){
		.verb = verb,
		.request = request,
		.argc = argc,
		.argv = argv,
		.at = 1,
		.operands = argv + 1,
	};
}

/* Every verb has it, unless its table has one. */
static const struct verb_option help_option = { .id = -2, .name = "help", .letter = 'h' };

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
struct option_match {
	const struct verb_option *option;
	bool is_negated;
	size_t count; /* options for which it may stand */
	bool is_whole;
};

static void consider(struct option_match *found, const struct verb_option *option, bool is_negated,
	enum match match)
{
	if (match == MATCH_NONE || (found->is_whole && match != MATCH_WHOLE))
		return;
	if (match == MATCH_WHOLE && !found->is_whole)
		*found = (struct option_match){ .is_whole = true };
	/* "no" and "no-" before the same name are one. */
	if (found->option == option && found->is_negated == is_negated)
		return;
	found->option = option;
	found->is_negated = is_negated;
	found->count++;
}

static void consider_perl(struct option_match *found, const struct verb_option *option,
	const char *typed, size_t size)
{
	if (option->letter != 0 && size == 1 && typed[0] == option->letter)
		consider(found, option, false, MATCH_WHOLE);
	if (option->argument != NULL)
		return;
	consider(found, option, true, match_name("no", option->name, typed, size));
	consider(found, option, true, match_name("no-", option->name, typed, size));
}

/* Among the first `count` options of the table. Hidden ones have no short forms, but the older
 * program's. */
static struct option_match search(
	const struct option_parser *parser, size_t count, const char *typed, size_t size)
{
	const struct verb *const verb = parser->verb;
	struct option_match found = { 0 };

	for (size_t i = 0; i < count && verb->options != NULL && verb->options[i].name != NULL;
		i++) {
		const struct verb_option *const option = &verb->options[i];
		const enum match match = match_name("", option->name, typed, size);
		const bool has_short_forms = !option->is_hidden || i < parser->classic_count;
		if (match == MATCH_WHOLE || has_short_forms)
			consider(&found, option, false, match);
		if (verb->has_perl_options && has_short_forms)
			consider_perl(&found, option, typed, size);
	}
	if (!verb->has_perl_options)
		consider(
			&found, &help_option, false, match_name("", help_option.name, typed, size));
	return found;
}

/*
 * Whole names of any option win, except that the older program's users keep its short forms; then
 * what is unique there; then what is unique at all.
 */
static bool find_name(struct option_parser *parser, const char *argument, size_t dash_count,
	size_t size, struct option_match *found, struct error *err)
{
	const char *const typed = argument + dash_count;
	const int shown = (int)(dash_count + (size > 60 ? 60 : size));

	*found = search(parser, SIZE_MAX, typed, size);
	if (parser->classic_count != 0) {
		const struct option_match classic =
			search(parser, parser->classic_count, typed, size);
		if (found->is_whole ? parser->prefers_classic && classic.count == 1
				    : classic.count != 0)
			*found = classic;
	}
	if (found->count == 0)
		return error_set(err, ERROR_USAGE, "unknown option %.*s", shown, argument);
	if (found->count > 1)
		return error_set(err, ERROR_USAGE, "%.*s is ambiguous", shown, argument);
	return true;
}

/* `attached` is the value that came with the option; NULL for none. */
static bool accept(struct option_parser *parser, const struct verb_option *option,
	const char *attached, int *id, struct error *err)
{
	if (option->argument == NULL && attached != NULL)
		return error_set(err, ERROR_USAGE, "--%s takes no value", option->name);
	parser->value = attached;
	if (option->argument != NULL && option->argument[0] != '[' && attached == NULL) {
		if (parser->at == parser->argc)
			return error_set(err, ERROR_USAGE, "--%s needs a value: %s", option->name,
				option->argument);
		parser->value = parser->argv[parser->at++];
	}
	/* What follows would name it in its error by nothing. */
	if (parser->value != NULL && *parser->value == '\0' &&
		(strstr(option->argument, "FILE") != NULL ||
			strcmp(option->argument, "FOLDER") == 0 ||
			strncmp(option->argument, "DIR", 3) == 0))
		return error_set(err, ERROR_USAGE, "--%s: the name is empty", option->name);
	parser->option = option;
	*id = option->id;
	return true;
}

/* Of an option with one dash or two. */
static bool read_name(
	struct option_parser *parser, const char *argument, int *id, struct error *err)
{
	const size_t dash_count = argument[1] == '-' ? 2 : 1;
	const char *const typed = argument + dash_count;
	const char *const equals = strchr(typed, '=');
	const size_t size = equals == NULL ? strlen(typed) : (size_t)(equals - typed);
	struct option_match found;

	if (!find_name(parser, argument, dash_count, size, &found, err))
		return false;
	parser->is_negated = found.is_negated;
	return accept(parser, found.option, equals == NULL ? NULL : equals + 1, id, err);
}

static const struct verb_option *find_letter(const struct verb *verb, char letter)
{
	for (const struct verb_option *o = verb->options; o != NULL && o->name != NULL; o++) {
		if (o->letter == letter)
			return o;
	}
	return letter == help_option.letter ? &help_option : NULL;
}

static bool read_letter(struct option_parser *parser, int *id, struct error *err)
{
	const char letter = *parser->letters++;
	const struct verb_option *const option = find_letter(parser->verb, letter);
	const char *const rest = parser->letters;

	if (*rest == '\0' || (option != NULL && option->argument != NULL))
		parser->letters = NULL;
	if (option == NULL)
		return error_set(err, ERROR_USAGE, "unknown option -%c", letter);
	parser->is_negated = false;
	return accept(
		parser, option, option->argument == NULL || *rest == '\0' ? NULL : rest, id, err);
}

static void take_operand(struct option_parser *parser, char *operand)
{
	parser->operands[parser->operand_count++] = operand;
	if (parser->verb->stops_at_operand)
		parser->past_dashes = true;
}

static bool check_operands(const struct option_parser *parser, struct error *err)
{
	const struct verb *const verb = parser->verb;

	if (parser->operand_count > verb->max_operands)
		return error_set(err, ERROR_USAGE,
			"'%.60s' is one argument too many; usage: heapctl %s%s%s",
			parser->operands[verb->max_operands], verb->name,
			*verb->arguments == '\0' ? "" : " ", verb->arguments);
	if (parser->operand_count < verb->min_operands)
		return error_set(err, ERROR_USAGE, "an argument is missing; usage: heapctl %s %s",
			verb->name, verb->arguments);
	return true;
}

static bool store_value(const struct option_parser *parser, struct error *err)
{
	const struct verb_option *const option = parser->option;
	void *const at = (char *)parser->request + option->offset;
	const int choice = (int)option->min;
	int64_t number = 0;

	switch (option->store) {
	case OPTION_STORE_SWITCH:
		*(bool *)at = !parser->is_negated;
		break;
	case OPTION_STORE_CHOICE:
		memcpy(at, &choice, sizeof choice);
		break;
	case OPTION_STORE_TEXT:
		*(const char **)at = parser->value;
		break;
	case OPTION_STORE_NUMBER:
		return option_integer(parser, option->min, option->max, at, err);
	case OPTION_STORE_COUNT:
		if (!option_integer(parser, option->min, option->max, &number, err))
			return false;
		*(size_t *)at = (size_t)number;
		break;
	case OPTION_STORE_REAL:
		return option_real(parser, (double)option->min, (double)option->max, at, err);
	case OPTION_STORE_WORD:
		return option_word(parser, at, err);
	case OPTION_STORE_DURATION:
		return duration_parse_run(parser->value, at, err) ||
		       error_prefix(err, "--%s", option->name);
	case OPTION_RETURN:
		break;
	}
	return true;
}

static bool read_next(struct option_parser *parser, int *id, struct error *err)
{
	if (parser->letters != NULL)
		return read_letter(parser, id, err);
	while (parser->at < parser->argc) {
		char *const argument = parser->argv[parser->at++];

		if (parser->past_dashes || argument[0] != '-' || argument[1] == '\0') {
			take_operand(parser, argument);
		} else if (strcmp(argument, "--") == 0) {
			parser->past_dashes = true;
		} else if (argument[1] == '-' || parser->verb->has_perl_options) {
			return read_name(parser, argument, id, err);
		} else {
			parser->letters = argument + 1;
			return read_letter(parser, id, err);
		}
	}
	*id = OPTION_END;
	parser->option = NULL;
	return check_operands(parser, err);
}

bool option_read(struct option_parser *parser, int *id, struct error *err)
{
	for (;;) {
		if (!read_next(parser, id, err))
			return false;
		if (*id != 0 || parser->option == NULL)
			return true;
		if (!store_value(parser, err))
			return false;
	}
}

int option_next(struct option_parser *parser)
{
	struct error err = { 0 };
	int id;

	if (!option_read(parser, &id, &err)) {
		parser->exit_code = verb_usage(parser->verb, "%s%s%s", err.message,
			err.hint[0] == '\0' ? "" : "; ", err.hint);
		return OPTION_STOP;
	}
	if (id != help_option.id)
		return id;
	verb_print_help(parser->verb, stdout);
	parser->exit_code = EXIT_DONE;
	return OPTION_STOP;
}

bool option_parse(
	struct option_parser *parser, const struct verb *verb, int argc, char **argv, void *request)
{
	option_begin(parser, verb, argc, argv, request);
	return option_next(parser) == OPTION_END;
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

bool option_integer(const struct option_parser *parser, int64_t min, int64_t max, int64_t *number,
	struct error *err)
{
	char *rest;

	errno = 0;
	const long long value = strtoll(parser->value, &rest, 10);
	if (rest == parser->value || *rest != '\0' || isspace((unsigned char)parser->value[0]))
		return error_set(err, ERROR_USAGE, "--%s: '%.60s' is not a whole number",
			parser->option->name, parser->value);
	if (errno != 0 || value < min || value > max)
		return error_set(err, ERROR_USAGE, "--%s: %.60s is outside %lld to %lld",
			parser->option->name, parser->value, (long long)min, (long long)max);
	*number = value;
	return true;
}

bool option_real(const struct option_parser *parser, double min, double max, double *number,
	struct error *err)
{
	char *rest;

	/* strtod would take blanks, hexadecimal digits, "inf" and "nan". */
	const double value = strtod(parser->value, &rest);
	if (rest == parser->value || *rest != '\0' ||
		parser->value[strspn(parser->value, "0123456789.eE+-")] != '\0')
		return error_set(err, ERROR_USAGE, "--%s: '%.60s' is not a number",
			parser->option->name, parser->value);
	if (parser->option->is_above_min && !(value > min))
		return error_set(err, ERROR_USAGE, "--%s: %.60s is not above %g",
			parser->option->name, parser->value, min);
	if (!(value >= min && value <= max))
		return error_set(err, ERROR_USAGE, "--%s: %.60s is outside %g to %g",
			parser->option->name, parser->value, min, max);
	*number = value;
	return true;
}

bool option_word(const struct option_parser *parser, void *value, struct error *err)
{
	const char *const *const words = parser->option->words;
	CLEANUP(buffer_deinit) struct buffer choices = BUFFER_OR_EXIT;
	unsigned count = 0;

	for (; words[count] != NULL; count++) {
		if (strcasecmp(words[count], parser->value) != 0)
			continue;
		memcpy(value, &count, sizeof count);
		return true;
	}
	for (unsigned i = 0; i < count; i++)
		buffer_printf(&choices, "%s%s",
			i == 0		 ? ""
			: i + 1 == count ? " or "
					 : ", ",
			words[i]);
	return error_set(err, ERROR_USAGE, "invalid value for --%s: '%.60s'; use %s",
		parser->option->name, parser->value, buffer_string(&choices));
}
