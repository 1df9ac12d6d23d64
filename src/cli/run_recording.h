/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile of a program's exit (heapctl run --record), for which heapctl stays its parent.
 *
 * jemalloc, or heapctl's sampler, writes the profile of an orderly exit itself, into a private
 * folder. A program that a signal kills never gets there; so before the parent passes such a signal
 * on, it requests a profile of the agent, which is used when there is no better one.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "cli/control.h"
#include "cli/terminal_job.h"

struct recording {
	struct output output;
	char folder[4096];     /* private; "" for none */
	char prefix[4200];     /* of the profiles that the program writes there */
	char process_name[64]; /* of the program, as far as it is known; "" */
	struct terminal_job job;
	int failure_fd;	 /* tells that the program could not be started; -1 before */
	char kept[4608]; /* what stays in the folder; "" for nothing */
};

/* Opens the output and makes the private folder. */
MUST_CHECK bool recording_open(const char *path, struct recording *recording, struct error *err);

/* Removes the folder, but for a profile that could not be saved, and what was not committed. */
void recording_cleanup(struct recording *recording);

/* Executes the program; returns only if that fails, with the reason printed. */
typedef void recording_exec(const void *context);

/* Forks, and calls `exec` in the child. The child's pid; -1 on failure. */
MUST_CHECK pid_t recording_start(
	struct recording *recording, recording_exec *exec, const void *context, struct error *err);

/*
 * Passes signals on until the program has ended, and saves its profile. `exit_code` is what heapctl
 * returns for the program, also when there is no profile: 128 and the signal's number where one
 * killed it.
 */
MUST_CHECK bool recording_finish(struct recording *recording, pid_t pid, const char *command,
	int *exit_code, struct error *err);
