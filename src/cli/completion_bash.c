/* SPDX-License-Identifier: Apache-2.0 */
/* A bash function with every verb, option and kind of value. */
#include <stdio.h>
#include <string.h>

#include "cli/completion_scripts.h"
#include "cli/verb.h"

/* The bash code that fills COMPREPLY for one kind of value (see `complete` in cli/verb.h). */
static void print_reply(const char *complete)
{
	if (complete == NULL)
		puts("COMPREPLY=()");
	else if (strcmp(complete, "@file") == 0)
		puts("mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); compopt -o filenames");
	else if (strstr(complete, " @file") != NULL)
		printf("_heapctl_words '%.*s'; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY "
		       "< <(compgen -f -- \"$word\"); compopt -o filenames\n",
			(int)strcspn(complete, "@") - 1, complete);
	else if (strcmp(complete, "@source") == 0)
		puts("_heapctl_words \"$(heapctl ps --names 2>/dev/null)\"; mapfile -t -O "
		     "${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$word\"); compopt -o "
		     "filenames");
	else if (strcmp(complete, "@folder") == 0)
		puts("mapfile -t COMPREPLY < <(compgen -d -- \"$word\"); compopt -o filenames");
	else if (strcmp(complete, "@command") == 0)
		puts("mapfile -t COMPREPLY < <(compgen -c -- \"$word\")");
	else if (strcmp(complete, "@target") == 0)
		puts("_heapctl_words \"$(heapctl ps --names 2>/dev/null)\"; compopt -o default");
	else
		printf("_heapctl_words '%s'\n", complete);
}

static void print_option_names(const struct verb *verb)
{
	for (const struct verb_option *o = verb->options; o != NULL && o->name != NULL; o++) {
		if (!o->is_hidden)
			printf("--%s ", o->name);
	}
	fputs("--help", stdout);
}

static void print_values(const struct verb *verb)
{
	for (const struct verb_option *o = verb->options; o != NULL && o->name != NULL; o++) {
		if (o->argument == NULL || o->argument[0] == '[')
			continue;
		printf("\t\t--%s", o->name);
		if (o->letter != 0)
			printf("|-%c", o->letter);
		fputs(") ", stdout);
		print_reply(o->complete);
		puts("\t\t\treturn ;;");
	}
}

static void print_verb(const struct verb *verb)
{
	printf("\t%s)\n\t\tcase $previous in\n", verb->name);
	print_values(verb);
	fputs("\t\tesac\n\t\tif [[ $word == -* ]]; then _heapctl_words '", stdout);
	print_option_names(verb);
	fputs("'; return; fi\n\t\t", stdout);
	print_reply(verb->complete);
	puts("\t\t;;");
}

static void print_verb_names(void)
{
	for (size_t i = 0; verb_table[i] != NULL; i++) {
		if (!verb_table[i]->is_hidden)
			printf("%s ", verb_table[i]->name);
	}
}

void completion_print_bash(void)
{
	puts("# bash completion for heapctl, made by `heapctl completion bash`\n"
	     "_heapctl_words()\n"
	     "{\n"
	     "\tmapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$word\")\n"
	     "}\n\n"
	     "_heapctl()\n"
	     "{\n"
	     "\tlocal word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
	     "\t# Bash makes words of the = and the value of --option=VALUE.\n"
	     "\tif [[ $word == = ]]; then word=\n"
	     "\telif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	     "\tif ((COMP_CWORD == 1)); then");
	fputs("\t\t_heapctl_words '", stdout);
	print_verb_names();
	puts("help --help --version'\n\t\treturn\n\tfi\n\tcase ${COMP_WORDS[1]} in");
	fputs("\thelp)\n\t\t((COMP_CWORD > 2)) || _heapctl_words '", stdout);
	print_verb_names();
	puts("'\n\t\t;;");
	for (size_t i = 0; verb_table[i] != NULL; i++)
		print_verb(verb_table[i]);
	puts("\tesac\n}\ncomplete -F _heapctl heapctl");
}
