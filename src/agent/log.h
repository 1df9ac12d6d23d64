/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's log: it goes to the program that embeds it, through a callback, or to stderr with
 * HEAPCTL_LOG=stderr. By default there is none: the descriptors of a server are its own.
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

/* Write to it without the agent's lock: a thread that waits for that may hold what the callback
 * waits for. */
struct log {
	void (*write)(void *context, int level, const char *message); /* NULL: none */
	void *context;
	bool to_stderr;
	/* For a thread with its own table of descriptors: what the program's stderr was. */
	bool has_own_files;
	uint64_t device;
	uint64_t inode;
};

/*
 * Before the calling thread gets its own table of descriptors. From now on each line is
 * written to the program's stderr of that time, if it is still the same file as now: a copy would
 * keep a pipe open that a daemon closes, and another file of that number is the program's own.
 */
void log_detach_stderr(struct log *log);

void log_write(const struct log *log, enum log_level level, const char *format, ...)
	PRINTF_FORMAT(3, 4);

/* "WHAT: message (hint)". */
void log_error(
	const struct log *log, enum log_level level, const char *what, const struct error *err);
