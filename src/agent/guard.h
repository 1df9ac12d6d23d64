/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the agent's thread would weaken a sandbox: when the main thread has given up rights
 * (seccomp, no_new_privs) that the agent's thread still has, a fault in the program could reach
 * through it. Then the thread has to go. Needs /proc; without it nothing is known and nothing said.
 * So a thread with descriptors of its own opens what it has to read before the program can change
 * its root.
 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"

/* What proc(5) says of a thread; -1 where it is not known. */
struct guard_state {
	int seccomp;
	int no_new_privs;
};

struct guard_state guard_parse(const char *status_text);

bool guard_is_weaker(const struct guard_state *main_thread, const struct guard_state *own);

/* proc(5)'s words on the main thread and on the agent's; -1 where they are opened each time. */
struct guard {
	int main_thread;
	int own;
};

#define GUARD_NONE ((struct guard){ .main_thread = -1, .own = -1 })

/* Whether there is something to open. */
bool guard_can_open(void);

/*
 * Opens both for the calling thread, for as long as guard_close is not called; false without /proc.
 */
MUST_CHECK bool guard_open(struct guard *guard);
void guard_close(struct guard *guard);

/* Looks at this process' main thread and at the calling one. */
bool guard_must_leave(const struct guard *guard);
