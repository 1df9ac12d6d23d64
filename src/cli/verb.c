/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/xalloc.h"

const struct verb *const *verb_table;

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; verb_table[i] != NULL; i++) {
		if (strcmp(verb_table[i]->name, name) == 0)
			return verb_table[i];
	}
	return NULL;
}

bool verb_reader_has_left(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/* One line; messages hold paths and what other programs answered. */
static PRINTF_FORMAT(1, 0) void print_line(const char *format, va_list arguments)
{
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };
	CLEANUP(buffer_cleanup) struct buffer line = { 0 };

	buffer_init(&text, &memory_or_exit);
	buffer_init(&line, &memory_or_exit);
	buffer_vprintf(&text, format, arguments);
	printable_append(&line, text.data, text.size);
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

int verb_fail(const struct error *err)
{
	if (err->errnum == EPIPE && verb_reader_has_left())
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

int verb_usage(const struct verb *verb, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "heapctl: %s: ", verb->name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, " (heapctl %s --help tells how)\n", verb->name);
	return EXIT_USAGE;
}
