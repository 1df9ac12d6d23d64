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

enum {
	BORROW_EXTRA_MS = 5000, /* until the last thread stands still */
	BORROW_LEAVE_MS = 5000, /* until a thread has ended, or left */
};

/* The stops of an attach, as heapctl sees them: from the request until the thread was let go. */
struct borrow_stops {
	int64_t used_us;  /* of the thread that was used */
	int64_t max_us;	  /* the longest */
	int64_t total_us; /* all */
	int count;
};

struct borrowed_thread {
	pid_t thread;
	int64_t at_ms; /* when it was let go */
	struct borrow_stops stops;
};

/* What an attempt may not do. */
struct borrow_limits {
	int patience_ms;
	const pid_t *avoided; /* threads that did not stop */
	size_t avoided_count;
};

/*
 * ERROR_STATE when no thread could be used in time, or the process is stopped; as inject_library.
 * `stuck` becomes a thread that does not stop, and is seized until the caller ends; else 0.
 */
MUST_CHECK bool borrow_some_thread(const struct injection *injection,
	const struct borrow_limits *limits, struct borrowed_thread *borrowed, pid_t *stuck,
	struct error *err);

/*
 * Waits until the borrowed thread has left the code that was put there: it may wait for a processor
 * in it when the new thread has come and gone. Stops it where looks prove nothing. False when it
 * has not left by then, or that cannot be proven.
 */
bool borrow_wait_until_left(const struct injection *injection, pid_t thread, int64_t until_ms);

/*
 * The end of an attach: writes `state` to the exchange at injection->memory, which says that the
 * answer was read, and puts the unused bytes back once nothing runs there. That is neither the new
 * thread, whose number `own_number` is that of its own pid namespace, nor the borrowed one, which
 * may still wait for a processor in them; it is stopped where looks prove nothing. Where that
 * cannot be proven in twice BORROW_LEAVE_MS the bytes stay.
 */
void borrow_finish(const struct injection *injection, const struct borrowed_thread *borrowed,
	pid_t own_number, uint32_t state);

/* Why a thread that is not stopped could not be used; NULL when it could. */
const char *borrow_look(const struct injection *injection, pid_t thread);
