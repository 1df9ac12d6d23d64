/* SPDX-License-Identifier: Apache-2.0 */
/* A zsh function for compsys: see _describe and _arguments in zshcompsys(1). */
#include <stdio.h>
#include <string.h>

#include "cli/completion_scripts.h"
#include "cli/verb.h"

/* Inside of single quotes, with a backslash before what compsys reads as syntax. */
static void print_quoted_size(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\'') {
			fputs("'\\''", stdout);
			continue;
		}
		if (strchr("[]:\\()", text[i]) != NULL)
			putchar('\\');
		putchar(text[i]);
	}
}

static void print_quoted(const char *text)
{
	print_quoted_size(text, strlen(text));
}

/* How compsys completes one kind of value (see `complete` in cli/verb.h). */
static void print_action(const char *complete)
{
	if (complete == NULL)
		putchar(' ');
	else if (strcmp(complete, "@file") == 0)
		fputs("_files", stdout);
	else if (strstr(complete, " @file") != NULL)
		printf("{compadd %.*s; _files}", (int)strcspn(complete, "@") - 1, complete);
	else if (strcmp(complete, "@folder") == 0)
		fputs("_files -/", stdout);
	else if (strcmp(complete, "@command") == 0)
		fputs("_command_names -e", stdout);
	else if (strcmp(complete, "@target") == 0)
		fputs("_heapctl_targets", stdout);
	else if (strcmp(complete, "@source") == 0)
		fputs("_heapctl_sources", stdout);
	else {
		putchar('(');
		print_quoted(complete);
		putchar(')');
	}
}

/* One spelling of an option; an option may be repeated. */
static void print_option(const struct verb_option *option, const char *name, const char *joint)
{
	const bool is_optional = option->argument != NULL && option->argument[0] == '[';

	printf("\t\t\t'*%s%s[", name, option->argument == NULL ? "" : is_optional ? "=-" : joint);
	print_quoted(option->help);
	putchar(']');
	if (option->argument != NULL) {
		/* Of "[=FILE]": FILE. */
		const char *const argument = option->argument + strspn(option->argument, "[=");

		fputs(is_optional ? "::" : ":", stdout);
		print_quoted_size(argument, strcspn(argument, "]"));
		putchar(':');
		print_action(option->complete);
	}
	puts("' \\");
}

static void print_verb(const struct verb *verb)
{
	char name[64];

	printf("\t%s)\n\t\t_arguments -s -S \\\n", verb->name);
	for (const struct verb_option *o = verb->options; o != NULL && o->name != NULL; o++) {
		if (o->is_hidden)
			continue;
		snprintf(name, sizeof name, "--%s", o->name);
		print_option(o, name, "=");
		if (o->letter != 0 && (o->argument == NULL || o->argument[0] != '[')) {
			snprintf(name, sizeof name, "-%c", o->letter);
			print_option(o, name, "+");
		}
	}
	fputs("\t\t\t'(- *)'{-h,--help}'[print the help]'", stdout);
	if (verb->stops_at_operand)
		fputs(" \\\n\t\t\t'(-)1:command:_command_names -e' '*::argument:_normal'", stdout);
	else if (verb->max_operands > 0) {
		fputs(" \\\n\t\t\t'*: :", stdout);
		print_action(verb->complete);
		putchar('\'');
	}
	puts("\n\t\t;;");
}

void completion_print_zsh(void)
{
	puts("#compdef heapctl\n"
	     "# zsh completion for heapctl, made by `heapctl completion zsh`\n"
	     "_heapctl_names()\n"
	     "{\n"
	     "\tlocal -a targets=(${(f)\"$(_call_program targets heapctl ps --names "
	     "2>/dev/null)\"}) expl\n"
	     "\t_wanted targets expl target compadd -a targets\n"
	     "}\n\n"
	     "# A target may also be the path of a socket.\n"
	     "_heapctl_targets()\n"
	     "{\n"
	     "\t_heapctl_names || _files\n"
	     "}\n\n"
	     "_heapctl_sources()\n"
	     "{\n"
	     "\t_alternative 'targets:target:_heapctl_names' 'files:file:_files'\n"
	     "}\n\n"
	     "_heapctl()\n"
	     "{\n"
	     "\tif ((CURRENT == 2)) || [[ $CURRENT == 3 && $words[2] == help ]]; then\n"
	     "\t\tlocal -a verbs=(");
	for (size_t i = 0; verb_table[i] != NULL; i++) {
		if (verb_table[i]->is_hidden)
			continue;
		printf("\t\t\t'%s:", verb_table[i]->name);
		print_quoted(verb_table[i]->summary);
		puts("'");
	}
	puts("\t\t)\n"
	     "\t\t((CURRENT == 3)) || verbs+=('help:print the help of a verb')\n"
	     "\t\t_describe verb verbs\n"
	     "\t\t((CURRENT == 3)) || _arguments '--help[print the help]' '--version[print the "
	     "version]'\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tshift words\n"
	     "\t((CURRENT--))\n"
	     "\tcase $words[1] in");
	for (size_t i = 0; verb_table[i] != NULL; i++)
		print_verb(verb_table[i]);
	/* Sourced, it registers itself; in a folder of $fpath it is the function. */
	puts("\tesac\n}\n\n"
	     "if [[ $funcstack[1] == _heapctl ]]; then\n"
	     "\t_heapctl \"$@\"\n"
	     "else\n"
	     "\tcompdef _heapctl heapctl\n"
	     "fi");
}
