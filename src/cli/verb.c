/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verb.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct verb *verb_find(const char *name)
{
	for (size_t i = 0; verbs[i] != NULL; i++) {
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	}
	return NULL;
}

bool verb_reader_has_left(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

int verb_fail(const struct error *err)
{
	if (err->errnum == EPIPE && verb_reader_has_left())
		return EXIT_FAILED;
	fprintf(stderr, "%s: %s", program_invocation_short_name, err->message);
	if (err->hint[0] != '\0')
		fprintf(stderr, " (%s)", err->hint);
	fputc('\n', stderr);
	return err->kind == ERROR_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

void verb_warn(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
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
