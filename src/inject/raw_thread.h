/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that a borrowed thread of a static program has started (inject/raw_code.h): maps the
 * agent's image, and enters it. The counterpart of inject/loader_thread.h.
 *
 * The image is a program that relocates itself (agent/image_start.c). Its code is mapped readable
 * and executable and written through /proc/PID/mem, so it is never writable there. An image of the
 * same bytes that an earlier attach has left is entered again.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "inject/borrow.h"
#include "inject/injection.h"
#include "inject/loader_thread.h"

/* As loader_thread_run(); `request->image` is the image's file. */
MUST_CHECK bool raw_thread_run(const struct injection *injection,
	const struct borrowed_thread *borrowed, const struct loader_request *request, int *returned,
	char *answer, size_t size, struct error *err);
