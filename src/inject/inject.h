/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a library into a running process and calls one function of it, on a thread of its own.
 *
 * Into a static program, which has no loader: an image that needs none, which is entered at its
 * beginning (inject/raw_thread.h), on a thread of no C library (inject/raw_code.h).
 *
 * A thread of the process is stopped for about as long as a context switch takes, where its stack
 * proves that it holds no lock (inject/stack_rule.h), and is made to call pthread_create() alone
 * (inject/trampoline.h). All else is the new thread's work, while the program runs. Whatever fails
 * leaves the process as it was.
 *
 * A child process of ours does the tracing: it may die at any moment without harm to the target,
 * and it is killed where the target does not answer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct inject_request {
	pid_t pid;
	/*
	 * The library as the process sees it. NULL, or another version of it is loaded there: from
	 * a sealed file in memory (memfd_create(2)), which needs /proc there.
	 */
	const char *path;
	const void *image; /* the whole file */
	size_t image_size;
	/* int function(const char *settings, char *answer, size_t size), in the library. */
	const char *function;
	const char *settings; /* up to 1535 bytes */
	int patience_ms;      /* how long to look for a thread that may be used */
};

struct inject_result {
	int returned;	   /* what the function has returned */
	char answer[1024]; /* and written */
	/* From the request to stop a thread until it was let go, as heapctl sees it. */
	int64_t stop_us;       /* of the thread that was used */
	int64_t max_stop_us;   /* the longest */
	int64_t total_stop_us; /* all */
	int stops;	       /* how many threads were stopped until one could be used */
};

/*
 * ERROR_STATE when no thread could be used in time, or the process is stopped; ERROR_UNSUPPORTED
 * for one whose C library cannot do it; ERROR_DENIED; ERROR_NOT_FOUND when it ended; ERROR_INPUT
 * with the loader's words when the library could not be loaded.
 */
MUST_CHECK bool inject_library(
	const struct inject_request *request, struct inject_result *result, struct error *err);

/*
 * Whether it could be done, by looking at the threads without stopping any: `safe` of `looks` would
 * have done. The same errors.
 */
MUST_CHECK bool inject_look(pid_t pid, int *safe, int *looks, struct error *err);
