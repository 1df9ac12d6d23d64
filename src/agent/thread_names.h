/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names by which the agent's threads are known in /proc: to other processes, and to another
 * copy of this code in the same one. A program that contains the agent and has it preloaded as well
 * has two.
 */
#pragma once

#include <stdbool.h>

enum thread_name {
	THREAD_NAME_AGENT,
	THREAD_NAME_REPLACEMENT, /* in the place of a main thread that has ended (agent/thread.h) */
};

/* Names the calling thread. */
void thread_names_set(enum thread_name name);

/* Whether that thread, a name in the folder `tasks` of proc(5), is an agent's. */
bool thread_names_is_agent(int tasks, const char *thread);

/*
 * Whether each thread beside the main one is an agent's, or, `with_replacements`, in the main
 * thread's place. False where that cannot be read.
 */
bool thread_names_are_agents(bool with_replacements);
