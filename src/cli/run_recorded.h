/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `heapctl run --record`: a parent that lives as long as the program, and saves what was alive at
 * its end.
 *
 * jemalloc writes the profile of an orderly exit itself (prof_final), into a private folder. A
 * program that a signal kills never gets there; so before the parent passes such a signal on, it
 * asks the agent for a profile, which counts when there is no better one.
 */
#pragma once

#include "base/error.h"
#include "cli/output.h"

struct recording {
	struct output output;
	char folder[4096]; /* private; "" for none */
	char prefix[4200]; /* for prof_prefix */
};

/* Opens the output and makes the private folder. */
MUST_CHECK bool recording_open(const char *path, struct recording *recording, struct error *err);

/* Removes the folder and what was not committed. */
void recording_cleanup(struct recording *recording);

/*
 * Runs the program to its end and saves the profile; returns what heapctl is to return. On
 * `listen_fd` a gateway for the program is started; -1 for none.
 */
int recording_run(struct recording *recording, char **command, int listen_fd);
