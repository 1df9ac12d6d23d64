/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process can answer at all. The socket of one that is stopped still takes connections,
 * and its agent never reads them: the reason is in /proc, long before a time limit is reached.
 */
#pragma once

#include <stdbool.h>

#include "client/process.h"

/*
 * True unless the process is stopped by a signal, frozen with its control group, or has ended, as
 * far as may be seen. ERROR_TIMEOUT (ERROR_NOT_FOUND of one that has ended) with the reason.
 */
MUST_CHECK bool process_state_check(const struct process *process, struct error *err);

/* Whether the process has ended for certain; false as well when that cannot be seen. */
bool process_has_ended(const struct process *process);

/* Whether a thread of an agent is there. */
bool process_has_agent_thread(const struct process *process);

/* Findings that repeat while a process is silent. Starts as { 0 }. */
struct process_watch {
	const struct process *process;
	int traced, asleep; /* times in a row */
};

/*
 * The same for a process that was silent for a while, checked every PROCESS_WATCH_INTERVAL_MS. Also
 * false if several checks in a row find the agent's thread held by a debugger or in an
 * uninterruptible wait (D): both states are short in a healthy process.
 */
enum { PROCESS_WATCH_INTERVAL_MS = 200 };
MUST_CHECK bool process_watch_check(struct process_watch *watch, struct error *err);

/* The same for one that was silent already: repeats the check as often as that needs. */
MUST_CHECK bool process_explain_silence(const struct process *process, struct error *err);
