/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent has to say without being asked: to the program that embeds it, through a
 * callback, or to stderr where HEAPCTL_LOG=stderr asks for that. By default nowhere: the
 * descriptors of a server are its own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
	/* For a thread with a table of descriptors of its own: what the program's stderr was. */
	bool is_apart;
	uint64_t device;
	uint64_t inode;
};

/*
 * The calling thread is about to get a table of descriptors of its own. From now on each line goes
 * to what the program has as stderr at that moment, as long as it is still the same file: a copy
 * would keep a pipe open that a daemon closes, and another file of that number is the program's
 * own.
 */
void log_part_files(struct log *log);

void log_write(const struct log *log, enum log_level level, const char *format, ...)
	PRINTF_FORMAT(3, 4);

/* "WHAT: message (hint)". */
void log_error(
	const struct log *log, enum log_level level, const char *what, const struct error *err);
