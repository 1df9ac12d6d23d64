/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does what must not be interrupted in a process of its own: it blocks all signals, finishes what
 * it has begun when we die, and is killed when it takes too long. What it had stopped goes on then.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { CHILD_RESULT_MAX = 4096 };

/*
 * Calls `work` there; `result`, aligned for any type and up to CHILD_RESULT_MAX bytes, is copied
 * from there, on failure too. ERROR_TIMEOUT when it does not end within `wait_ms`, ERROR_MEMORY
 * when it cannot be started, ERROR_SYSTEM when it ends by itself without a result.
 */
MUST_CHECK bool child_run(bool (*work)(const void *context, void *result, struct error *err),
	const void *context, void *result, size_t size, int wait_ms, struct error *err);
