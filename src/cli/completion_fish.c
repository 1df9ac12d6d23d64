/* SPDX-License-Identifier: Apache-2.0 */
/* fish completion: a line of complete(1) for each verb, option and kind of operand. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/completion_scripts.h"
#include "cli/verb.h"

static void print_quoted(const char *text)
{
	putchar('\'');
	for (; *text != '\0'; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('\'');
}

/* What may stand where a value is expected (see `complete` in cli/verb.h). */
static void print_values(const char *complete)
{
	if (complete == NULL)
		return;
	if (strcmp(complete, "@file") == 0)
		fputs(" -F", stdout);
	else if (strstr(complete, " @file") != NULL)
		printf(" -F -a '%.*s'", (int)strcspn(complete, "@") - 1, complete);
	else if (strcmp(complete, "@folder") == 0)
		fputs(" -a '(__fish_complete_directories)'", stdout);
	else if (strcmp(complete, "@command") == 0)
		fputs(" -a '(__fish_complete_command)'", stdout);
	else if (strcmp(complete, "@target") == 0)
		fputs(" -a '(__heapctl_targets)'", stdout);
	else if (strcmp(complete, "@source") == 0)
		fputs(" -F -a '(heapctl ps --names 2>/dev/null)'", stdout);
	else {
		/* fish evaluates these words. */
		fputs(" -a '", stdout);
		for (const char *c = complete; *c != '\0'; c++) {
			if (strchr("<>|&;()[]{}$*?~#\"\\", *c) != NULL)
				putchar('\\');
			putchar(*c);
		}
		putchar('\'');
	}
}

static bool may_be_file(const char *complete)
{
	return complete != NULL &&
	       (strstr(complete, "@file") != NULL || strcmp(complete, "@source") == 0);
}

static void begin_line(const struct verb *verb)
{
	printf("complete -c heapctl -n '__heapctl_verb_is %s'", verb->name);
}

static void print_option(const struct verb *verb, const struct verb_option *option)
{
	begin_line(verb);
	printf(" -l %s", option->name);
	if (option->letter != 0)
		printf(" -s %c", option->letter);
	if (option->argument != NULL && option->argument[0] != '[') {
		/* Beside the values of -r, fish offers files. */
		fputs(may_be_file(option->complete) ? " -r" : " -x", stdout);
		print_values(option->complete);
	}
	fputs(" -d ", stdout);
	print_quoted(option->help);
	putchar('\n');
}

static void print_verb(const struct verb *verb)
{
	for (const struct verb_option *o = verb->options; o != NULL && o->name != NULL; o++) {
		if (!o->is_hidden)
			print_option(verb, o);
	}
	begin_line(verb);
	puts(" -l help -s h -d 'print the help'");
	if (verb->complete == NULL)
		return;
	begin_line(verb);
	if (verb->stops_at_operand)
		fputs(" -a '(__fish_complete_subcommand --fcs-skip=2)'", stdout);
	else
		print_values(verb->complete);
	putchar('\n');
}

void completion_print_fish(void)
{
	puts("# fish completion for heapctl, made by `heapctl completion fish`\n"
	     "function __heapctl_verb_is\n"
	     "\tset -l words (commandline -opc)\n"
	     "\ttest (count $words) -gt 1; and test $words[2] = $argv[1]\n"
	     "end\n\n"
	     "function __heapctl_has_no_verb\n"
	     "\ttest (count (commandline -opc)) -eq 1\n"
	     "end\n\n"
	     "function __heapctl_wants_verb\n"
	     "\tset -l words (commandline -opc)\n"
	     "\ttest (count $words) -eq 1; or test \"$words[2..]\" = help\n"
	     "end\n\n"
	     "# A target may also be the path of a socket.\n"
	     "function __heapctl_targets\n"
	     "\theapctl ps --names 2>/dev/null\n"
	     "\tif string match -q '*/*' -- (commandline -ct)\n"
	     "\t\t__fish_complete_path (commandline -ct)\n"
	     "\tend\n"
	     "end\n\n"
	     "complete -c heapctl -f\n"
	     "complete -c heapctl -n __heapctl_has_no_verb -l help -d 'print the help'\n"
	     "complete -c heapctl -n __heapctl_has_no_verb -l version -d 'print the version'\n"
	     "complete -c heapctl -n __heapctl_has_no_verb -a help -d 'print the help of a verb'");
	for (size_t i = 0; verb_table[i] != NULL; i++) {
		if (verb_table[i]->is_hidden)
			continue;
		printf("complete -c heapctl -n __heapctl_wants_verb -a %s -d ",
			verb_table[i]->name);
		print_quoted(verb_table[i]->summary);
		putchar('\n');
	}
	for (size_t i = 0; verb_table[i] != NULL; i++)
		print_verb(verb_table[i]);
}
