/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a process to its agent: finds the agent's socket, wakes an agent that is there on demand, or
 * says why there is none.
 */
#pragma once

#include "client/discovery.h"
#include "client/target.h"

/* A young process: its agent makes its socket 0.1 s and 1 s after its start. */
enum { TARGET_YOUNG_MS = 1200 };

/* The agent of a process that is known by its pid. Lets one on demand sleep. */
MUST_CHECK bool target_of_process(pid_t pid, struct target *target, struct error *err);

/* The same of a process that was read, one of several that share the kernel's tables. */
MUST_CHECK bool target_find(struct listening_tables *tables, const struct process *process,
	struct target *target, struct error *err);

/* The same, and wakes an agent on demand; waits for one that is just making its socket. */
MUST_CHECK bool target_reach(
	const struct process *process, struct target *target, struct error *err);

/* Whether the process has an agent on demand, asleep or just making its socket. */
bool target_may_wake(const struct process *process);

/*
 * Whether a command can wake the agent on demand of this process now. ERROR_STATE where its limits,
 * its root, its signals or a damaged file prevent that, ERROR_TIMEOUT where it is stopped. Takes up
 * to half a second.
 */
MUST_CHECK bool target_check_sleeper(const struct process *process, struct error *err);

/* An agent on demand that is asleep: target_connect wakes it. */
void target_of_sleeper(const struct process *process, struct target *target);

/*
 * Connects (with TLS where the URL says so) and checks which process answers. Wakes an agent on
 * demand, which may have left since the target was found.
 */
MUST_CHECK bool target_connect(
	const struct target *target, struct stream *stream, struct error *err);
