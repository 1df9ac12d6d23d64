/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's own threads: each is joined by the code that starts it. */
#pragma once

#include <pthread.h>
#include <stddef.h>

#include "base/error.h"

/* `purpose` completes "starting ..." in the error. */
MUST_CHECK bool thread_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *context),
	void *context, const char *purpose, struct error *err);
