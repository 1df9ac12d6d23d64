/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "cli/terminal.h"

const struct verb *const *verb_table;
const char *verb_source_date = "";

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; verb_table[i] != NULL; i++) {
		if (strcmp(verb_table[i]->name, name) == 0)
			return verb_table[i];
	}
	return NULL;
}

bool verb_output_is_closed(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/* One line; messages hold paths and what other programs answered. */
static PRINTF_FORMAT(1, 0) void print_line(const char *format, va_list arguments)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer line = BUFFER_OR_EXIT;

	buffer_vprintf(&text, format, arguments);
	utf8_append_printable(&line, text.data, text.size);
	buffer_append_char(&line, '\n');
	fputs(buffer_string(&line), stderr);
}

static PRINTF_FORMAT(1, 2) void print(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line(format, arguments);
	va_end(arguments);
}

static enum error_kind failure_kind;

enum error_kind verb_failure_kind(void)
{
	return failure_kind;
}

int verb_fail(const struct error *err)
{
	failure_kind = err->kind;
	if (err->errnum == EPIPE && verb_output_is_closed())
		return EXIT_FAILED;
	const bool has_hint = err->hint[0] != '\0';
	print("%s: %s%s%s%s", program_invocation_short_name, err->message, has_hint ? " (" : "",
		err->hint, has_hint ? ")" : "");
	return err->kind == ERROR_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

void verb_warn(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	print_line(format, arguments);
	va_end(arguments);
}

void verb_warn_of_folders(const char *option, const char *folders, const char *separator)
{
	for (const char *at = folders; at != NULL && *at != '\0';) {
		const size_t size = strcspn(at, separator);
		CLEANUP(free_cleanup) char *folder = xstrndup(at, size);
		CLEANUP(fd_cleanup)
		const int fd = size == 0 ? -1 : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (size != 0 && fd < 0)
			verb_warn("--%s %s: %s", option, folder, strerror(errno));
		at += size;
		at += *at != '\0';
	}
}

int verb_usage(const struct verb *verb, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "heapctl: %s: ", verb->name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, " (see heapctl %s --help)\n", verb->name);
	return EXIT_USAGE;
}

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

static void print_option(const struct verb_option *option, FILE *out)
{
	char form[128];

	if (option->letter != 0)
		snprintf(form, sizeof form, "-%c, ", option->letter);
	else
		snprintf(form, sizeof form, "    ");
	const size_t start = strlen(form);
	snprintf(form + start, sizeof form - start, "--%s%s%s", option->name,
		option->argument == NULL || option->argument[0] == '[' ? "" : " ",
		option->argument == NULL ? "" : option->argument);

	fprintf(out, "  %-*s", OPTION_HELP_COLUMN - 2, form);
	if (strlen(form) > OPTION_HELP_COLUMN - 4)
		fprintf(out, "\n%*s", OPTION_HELP_COLUMN, "");
	terminal_fill(out, option->help, OPTION_HELP_COLUMN, OPTION_HELP_COLUMN, columns_of(out));
}

static void print_options(const struct verb *verb, FILE *out)
{
	const struct verb_option *const options = verb->options;

	if (options == NULL || options[0].group == NULL)
		fputs("\noptions:\n", out);
	for (const struct verb_option *option = options; option != NULL && option->name != NULL;
		option++) {
		if (option->group != NULL)
			fprintf(out, "\n%s:\n", option->group);
		if (!option->is_hidden)
			print_option(option, out);
	}
	fprintf(out, "  %-*sprint this help\n", OPTION_HELP_COLUMN - 2, "-h, --help");
}

void verb_print_help(const struct verb *verb, FILE *out)
{
	fprintf(out, "usage: heapctl %s ", verb->name);
	terminal_fill(out, verb->arguments, strlen("usage: heapctl  ") + strlen(verb->name), 8,
		columns_of(out));
	fputc('\n', out);
	terminal_fill(out, verb->description[0] == '\0' ? verb->summary : verb->description, 0, 0,
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

void verb_print_overview(FILE *out)
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
	      "http://host:port/targets/NAME). TARGET:* means its descendants as well (report,\n"
	      "dump, record, top).\n",
		out);
}
