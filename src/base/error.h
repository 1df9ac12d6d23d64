/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: what failed and why, for the person on call.
 *
 * A fallible function takes a `struct error *` as its last argument and returns bool: true is
 * success and leaves the error untouched, false fills it. The caller owns the error; nothing here
 * allocates, so it works inside a process whose allocator is being profiled. Never pass NULL.
 *
 *	if (!file_map(path, &map, err))
 *		return error_prefix(err, "reading %s", path);
 *
 * The message says what failed and why; the hint, printed in parentheses, says what to do.
 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"

enum error_kind {
	ERROR_NONE,
	ERROR_SYSTEM,	 /* a system call failed; errnum says how */
	ERROR_MEMORY,	 /* no memory */
	ERROR_INPUT,	 /* malformed input: a file, a request, an answer */
	ERROR_USAGE,	 /* the request has no meaning */
	ERROR_NOT_FOUND, /* no such target, file, run, name */
	ERROR_STATE, /* not possible now: a run is on, profiling is off, another client did it */
	ERROR_UNSUPPORTED, /* never possible here: no profiling compiled in, wrong allocator */
	ERROR_DENIED,	   /* not allowed */
	ERROR_TIMEOUT,	   /* took too long */
};

struct error {
	enum error_kind kind;
	int errnum; /* errno or mallctl's return code; 0 where there is none */
	char message[400];
	char hint[320];
};

/* Each of these fills `err` and returns false, so that `return error_set(...)` reads well. */
bool error_set(struct error *err, enum error_kind kind, const char *format, ...)
	PRINTF_FORMAT(3, 4);

/* ERROR_SYSTEM with what errnum means after the text: "open /x: Permission denied". */
bool error_system(struct error *err, int errnum, const char *format, ...) PRINTF_FORMAT(3, 4);

/* Puts "CONTEXT: " in front of the message that is there. */
bool error_prefix(struct error *err, const char *format, ...) PRINTF_FORMAT(2, 3);

/* Says what to do about it, replacing an earlier hint. */
bool error_hint(struct error *err, const char *format, ...) PRINTF_FORMAT(2, 3);

/* A short stable word for the kind ("not-found"), used in JSON answers. */
const char *error_kind_name(enum error_kind kind);

/*
 * What errno means, in the C library's English words; NULL for a number that Linux does not use.
 * strerror_r() would look for a translation as soon as the program has chosen a language: that
 * takes memory from its heap, and a lock. Any thread, signal handlers too.
 */
const char *errno_text(int errnum);
