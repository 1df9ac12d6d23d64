/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/errno_text.h"

static void set_message(struct error *err, enum error_kind kind, int errnum, const char *format,
	va_list arguments) PRINTF_FORMAT(4, 0);

static void set_message(
	struct error *err, enum error_kind kind, int errnum, const char *format, va_list arguments)
{
	err->kind = kind;
	err->errnum = errnum;
	err->hint[0] = '\0';
	vsnprintf(err->message, sizeof err->message, format, arguments);
}

bool error_set(struct error *err, enum error_kind kind, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	set_message(err, kind, 0, format, arguments);
	va_end(arguments);
	return false;
}

bool error_system(struct error *err, int errnum, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	set_message(err, ERROR_SYSTEM, errnum, format, arguments);
	va_end(arguments);

	const char *const reason = errno_text(errnum);
	const size_t used = strlen(err->message);
	const size_t left = sizeof err->message - used;
	if (reason != NULL)
		snprintf(err->message + used, left, ": %s", reason);
	else
		snprintf(err->message + used, left, ": error %d", errnum);
	return false;
}

bool error_prefix(struct error *err, const char *format, ...)
{
	char context[sizeof err->message];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(context, sizeof context, format, arguments);
	va_end(arguments);

	char whole[2 * sizeof err->message];
	snprintf(whole, sizeof whole, "%s: %s", context, err->message);
	memcpy(err->message, whole, sizeof err->message - 1);
	err->message[sizeof err->message - 1] = '\0';
	return false;
}

bool error_hint(struct error *err, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(err->hint, sizeof err->hint, format, arguments);
	va_end(arguments);
	return false;
}

const char *error_kind_name(enum error_kind kind)
{
	static const char *const names[] = {
		[ERROR_NONE] = "none",
		[ERROR_SYSTEM] = "system",
		[ERROR_MEMORY] = "memory",
		[ERROR_INPUT] = "input",
		[ERROR_USAGE] = "usage",
		[ERROR_NOT_FOUND] = "not-found",
		[ERROR_STATE] = "state",
		[ERROR_UNSUPPORTED] = "unsupported",
		[ERROR_DENIED] = "denied",
		[ERROR_TIMEOUT] = "timeout",
	};
	return names[kind];
}
