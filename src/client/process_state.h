/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process can answer at all. The socket of one that is stopped still takes connections,
 * and its agent never reads them: the reason is in /proc, long before a time limit is reached.
 *
 */
#pragma once

#include <stdbool.h>

#include "client/process.h"

/*
 * True unless the process is stopped by a signal, frozen with its control group, or has ended, as
 * far as may be seen. ERROR_TIMEOUT (ERROR_NOT_FOUND of one that has ended) with the reason.
 */
MUST_CHECK bool process_state_check(const struct process *process, struct error *err);

/* Whether the process is gone for sure; false as well when that cannot be seen. */
bool process_has_ended(const struct process *process);

/* Whether a thread of an agent is there. */
bool process_has_agent_thread(const struct process *process);

/* What is found again and again while a process is silent. Starts as { 0 }. */
struct process_watch {
	const struct process *process;
	int traced, asleep; /* times in a row */
};

/*
 * The same for a process that was silent for a while, asked every PROCESS_WATCH_INTERVAL_MS. Also
 * false of one whose agent's thread a debugger holds, or that waits for the kernel (D), at several
 * looks in a row: both are states of a moment in a healthy process.
 */
enum { PROCESS_WATCH_INTERVAL_MS = 200 };
MUST_CHECK bool process_watch_check(struct process_watch *watch, struct error *err);

/* The same of one that was silent already: takes as many looks as that needs. */
MUST_CHECK bool process_explain_silence(const struct process *process, struct error *err);
