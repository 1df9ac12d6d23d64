/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <string.h>

#include "cli/terminal.h"

enum {
	COLUMNS = 80,
	OPTION_HELP_COLUMN = 30,
};

/* Wide terminals do not make wide help. */
static size_t columns_of(FILE *out)
{
	const size_t columns = (size_t)terminal_columns(out);

	return columns < COLUMNS ? columns : COLUMNS;
}

static void new_line(FILE *out, size_t indent)
{
	fprintf(out, "\n%*s", (int)indent, "");
}

/* One paragraph, or a line that is kept; returns where it ended in the text. */
static const char *fill_paragraph(
	FILE *out, const char *text, size_t column, size_t indent, size_t limit)
{
	bool is_first = true;

	while (*text != '\0' && *text != '\n') {
		const size_t word = strcspn(text, " \n");

		if (!is_first && column + 1 + word > limit) {
			new_line(out, indent);
			column = indent;
			is_first = true;
		}
		column += (size_t)fprintf(out, "%s%.*s", is_first ? "" : " ", (int)word, text);
		is_first = false;
		text += word;
		text += strspn(text, " ");
		if (*text == '\n' && text[1] != '\n' && text[1] != ' ' && text[1] != '\0')
			text++;
	}
	return text;
}

void help_fill(FILE *out, const char *text, size_t column, size_t indent, size_t limit)
{
	while (*text != '\0') {
		if (*text == ' ') {
			const size_t line = strcspn(text, "\n");
			fwrite(text, 1, line, out);
			text += line;
		} else {
			text = fill_paragraph(out, text, column, indent, limit);
		}
		for (; *text == '\n'; text++) {
			if (text[1] != '\0' && text[1] != '\n')
				new_line(out, indent);
			else if (text[1] != '\0')
				fputc('\n', out);
		}
		column = indent;
	}
	fputc('\n', out);
}

static void print_option(const struct verb_option *option, FILE *out)
{
	char form[128];

	if (option->letter != 0)
		snprintf(form, sizeof form, "-%c, ", option->letter);
	else
		snprintf(form, sizeof form, "    ");
	const size_t start = strlen(form);
	snprintf(form + start, sizeof form - start, "--%s%s%s", option->name,
		option->argument == NULL ? "" : " ",
		option->argument == NULL ? "" : option->argument);

	fprintf(out, "  %-*s", OPTION_HELP_COLUMN - 2, form);
	if (strlen(form) > OPTION_HELP_COLUMN - 4)
		new_line(out, OPTION_HELP_COLUMN);
	help_fill(out, option->help, OPTION_HELP_COLUMN, OPTION_HELP_COLUMN, columns_of(out));
}

static void print_options(const struct verb *verb, FILE *out)
{
	const struct verb_option *const options = verb->options;

	if (options == NULL || options[0].group == NULL)
		fputs("\noptions:\n", out);
	for (const struct verb_option *option = options; option != NULL && option->id != 0;
		option++) {
		if (option->group != NULL)
			fprintf(out, "\n%s:\n", option->group);
		if (!option->is_hidden)
			print_option(option, out);
	}
	fprintf(out, "  %-*sprint this help\n", OPTION_HELP_COLUMN - 2, "-h, --help");
}

void help_print(const struct verb *verb, FILE *out)
{
	fprintf(out, "usage: heapctl %s ", verb->name);
	help_fill(out, verb->arguments, strlen("usage: heapctl  ") + strlen(verb->name), 8,
		columns_of(out));
	fputc('\n', out);
	help_fill(out, verb->description[0] == '\0' ? verb->summary : verb->description, 0, 0,
		columns_of(out));
	print_options(verb, out);
	if (verb->examples != NULL) {
		fputs("\nexamples:\n", out);
		for (const char *line = verb->examples; *line != '\0';) {
			const size_t size = strcspn(line, "\n");
			fprintf(out, "  %.*s\n", (int)size, line);
			line += size + (line[size] == '\n');
		}
	}
}

void help_print_overview(FILE *out)
{
	fputs("heapctl shows where the memory goes in a running server.\n\n"
	      "usage: heapctl VERB [ARGUMENTS]\n\n",
		out);
	for (size_t i = 0; verb_table[i] != NULL; i++) {
		if (!verb_table[i]->is_hidden)
			fprintf(out, "  %-11s %s\n", verb_table[i]->name, verb_table[i]->summary);
	}
	fputs("\n`heapctl VERB --help` (or `heapctl help VERB`) explains a verb, `man heapctl`\n"
	      "all of them; `heapctl --version` prints the version.\n\n"
	      "TARGET is a pid, a process name, NAME@USER (the processes of one user), the path\n"
	      "of an agent's socket, or the URL of a gateway (http://host:port,\n"
	      "http://host:port/targets/NAME).\n",
		out);
}
