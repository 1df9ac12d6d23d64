/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of this process: starting, stopping, its thread, and what it becomes in a forked child.
 *
 * A process has at most one. In a forked child it starts again, without the parent's runs and
 * clients, unless children are to have none. A child inherits only the `struct allocator` found at
 * the first start and the options; all else is in memory that a child does not get.
 */
#pragma once

#include "agent/agent_thread.h"
#include "agent/core.h"
#include "agent/listener.h"
#include "agent/log.h"
#include "agent/thread.h"

/*
 * ERROR_STATE when it is started already. A program that starts it itself takes over one that was
 * preloaded: it sets the log, and the agent starts again with the program's descriptors.
 */
MUST_CHECK bool agent_start(const struct agent_options *options, struct error *err);

/*
 * At the exit of the process that it was started in: writes the profile of HEAPCTL_FINAL, if
 * heapctl takes the samples.
 */
void agent_write_final_profile(void);

/* Whether there is an agent in this process, by this copy of the code. */
bool agent_is_started(void);

/* Ends one that was attached, and leaves the allocator as it was found. */
void agent_end_attached(void);

/* Ends it and waits for the end of its thread. Does nothing when there is none. */
void agent_stop(void);

/*
 * Locks the core for the calling thread, whose SIGPIPE and SIGXFSZ are held back until
 * agent_unlock. ERROR_STATE when there is no agent in this process.
 */
struct agent_use {
	struct core *core;
	struct agent_listener *listener;
	struct held_signals signals;
};

MUST_CHECK bool agent_lock(struct agent_use *use, struct error *err);

/* `plan_changed`: a run began or ended, so the agent's loop has another deadline. */
void agent_unlock(struct agent_use *use, bool plan_changed);

/* AGENT_EMBEDDED: readable when agent_process has something to do; -1. One thread for both. */
int agent_fd(void);
MUST_CHECK bool agent_process(struct error *err);
