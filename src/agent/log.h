/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent has to say without being asked: to the program that embeds it, through a
 * callback, or to stderr where HEAPCTL_LOG=stderr asks for that. By default to nobody: the
 * descriptors of a server are its own.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum log_level {
	LOG_ERROR, /* the agent cannot do its work */
	LOG_WARNING,
	LOG_INFO,
};

/* Write to it without the agent's lock, whose waiters may hold what the callback waits for. */
struct log {
	void (*write)(void *context, int level, const char *message); /* NULL: none */
	void *context;
	bool to_stderr;
};

void log_write(const struct log *log, enum log_level level, const char *format, ...)
	PRINTF_FORMAT(3, 4);

/* "WHAT: message (hint)". */
void log_error(
	const struct log *log, enum log_level level, const char *what, const struct error *err);
