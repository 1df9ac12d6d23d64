/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that the borrowed one has started: it gets its request, loads the library, calls one
 * function of it, and ends.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "inject/borrow.h"
#include "inject/injection.h"

struct loader_request {
	const char *path;  /* of the library, as the process sees it; NULL: it does not */
	const void *image; /* the whole file */
	size_t image_size;
	const char *function, *settings;
};

/* ERROR_USAGE when it is too long for the exchange. */
MUST_CHECK bool loader_request_check(const struct loader_request *request, struct error *err);

enum { LOADER_MS = 25000 }; /* how long the conversation may last */

/*
 * As inject_library. `returned` is what the function has returned, `answer` of `size` bytes what it
 * has written. Afterwards the code that was put into the process is gone.
 */
MUST_CHECK bool loader_thread_run(const struct injection *injection,
	const struct borrowed_thread *borrowed, const struct loader_request *request, int *returned,
	char *answer, size_t size, struct error *err);
