/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt: stops one thread of the process after the other until one may be used, and lets that
 * one start a new thread (inject/trampoline.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/injection.h"
#include "inject/tracee.h"

enum { BORROW_EXTRA_MS = 5000 }; /* until the last thread stands still */

struct borrowed_thread {
	pid_t thread;
	int64_t at_ms;	 /* when it was let go */
	int64_t stop_us; /* how long it stood still */
	int stops;	 /* how many threads were stopped until one could be used */
};

/* ERROR_STATE when no thread could be used in time, or the process is stopped; as inject_library.
 */
MUST_CHECK bool borrow_some_thread(const struct injection *injection, int patience_ms,
	struct borrowed_thread *borrowed, struct error *err);

/* Why the thread, which stands still, may not be used; NULL when it may. */
const char *borrow_refusal(const struct injection *injection, const struct tracee *tracee);

/* The same of a thread that is not stopped. */
const char *borrow_look(const struct injection *injection, pid_t thread);
