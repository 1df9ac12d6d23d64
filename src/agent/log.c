/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void log_write(const struct log *log, enum log_level level, const char *format, ...)
{
	static const char prefix[] = "heapctl: ";
	char line[1024];
	va_list arguments;
	size_t length = sizeof prefix - 1;

	if (log->write == NULL && !log->to_stderr)
		return;
	memcpy(line, prefix, sizeof prefix);
	va_start(arguments, format);
	vsnprintf(line + length, sizeof line - length - 1, format, arguments);
	va_end(arguments);
	if (log->write != NULL)
		log->write(log->context, (int)level, line + length);
	length = strlen(line);
	line[length++] = '\n';
	if (log->to_stderr && write(STDERR_FILENO, line, length) < 0)
		return;
}

void log_error(
	const struct log *log, enum log_level level, const char *what, const struct error *err)
{
	const bool hint = err->hint[0] != '\0';

	log_write(log, level, "%s: %s%s%s%s", what, err->message, hint ? " (" : "", err->hint,
		hint ? ")" : "");
}
