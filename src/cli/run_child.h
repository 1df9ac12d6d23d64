/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that `heapctl run` starts: a gateway for the program (--listen), and the program
 * itself where heapctl stays its parent to save what is alive at its end (--record).
 *
 * The gateway is no child of the program, which may count its own, and ends with it.
 *
 * jemalloc writes the profile of an orderly exit itself (prof_final), into a private folder. A
 * program that a signal kills never gets there; so before the parent passes such a signal on, it
 * requests a profile of the agent, which is used when there is no better one.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "cli/control.h"

/*
 * Binds the gateway's address before the program runs, so that an error is reported in time.
 * ERROR_DENIED for an address that other machines reach: that takes a token, and heapctl serve.
 */
MUST_CHECK bool run_gateway_open(const char *address, int *fd, struct error *err);

/* Starts the gateway for that process on the socket, which is closed here; -1: nothing to do. */
MUST_CHECK bool run_gateway_start(int fd, pid_t pid, struct error *err);

/* Undoes what heapctl changed about signals, for a program that is about to be started. */
void run_restore_signals(void);

struct recording {
	struct output output;
	char folder[4096];     /* private; "" for none */
	char prefix[4200];     /* for prof_prefix */
	char process_name[64]; /* of the program, as far as it is known; "" */
};

/* Opens the output and makes the private folder. */
MUST_CHECK bool recording_open(const char *path, struct recording *recording, struct error *err);

/* Removes the folder and what was not committed. */
void recording_cleanup(struct recording *recording);

/*
 * Runs the program to its end and saves the profile; returns the exit code of heapctl. On
 * `listen_fd` a gateway for the program is started; -1 for none.
 */
int recording_run(struct recording *recording, char **command, int listen_fd);
