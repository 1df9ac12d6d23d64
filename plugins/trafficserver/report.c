/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <ts/ts.h>

/* A hint and a message of heapctl.h fit, and a path. */
enum { LINE_BYTES = 1536 };

#define WRITE_LINE(write)                                        \
	do {                                                     \
		char line[LINE_BYTES];                           \
		va_list arguments;                               \
		va_start(arguments, format);                     \
		vsnprintf(line, sizeof line, format, arguments); \
		va_end(arguments);                               \
		write("[" PLUGIN_TAG "] %s", line);              \
	} while (0)

void report_done(const char *format, ...)
{
	WRITE_LINE(TSNote);
}

void report_warning(const char *format, ...)
{
	WRITE_LINE(TSWarning);
}

void report_failure(const char *format, ...)
{
	WRITE_LINE(TSError);
}

void report_error(const char *what, const struct heapctl_error *err)
{
	if (err->hint[0] == '\0')
		report_failure("%s: %s", what, err->message);
	else
		report_failure("%s: %s (%s)", what, err->message, err->hint);
}

void report_agent(void *context, int level, const char *message)
{
	(void)context;
	switch ((enum heapctl_log_level)level) {
	case HEAPCTL_LOG_ERROR:
		report_failure("%s", message);
		break;
	case HEAPCTL_LOG_WARNING:
		report_warning("%s", message);
		break;
	case HEAPCTL_LOG_INFO:
		report_done("%s", message);
		break;
	}
}
