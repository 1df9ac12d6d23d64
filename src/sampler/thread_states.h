/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sampler knows of each thread, where the threads' own storage belongs to another C
 * library: the agent for static programs has a libc of its own (agent/image_start.c), and its
 * functions run on threads of which it knows nothing but the thread pointer.
 *
 * A table by the thread pointer, which glibc and musl keep in the first word that it points to. A
 * state stays when its thread ends, and is that of the next thread with the same pointer; where
 * there is no room, states of ended threads are used again. A thread without a state is not
 * sampled.
 *
 * Any thread, also in a signal handler. Makes no system call but to look for ended threads.
 */
#pragma once

#include "sampler/sampler.h"

/* The calling thread's errno, as functions of the agent's libc see it; the program's stays. */
int *thread_states_errno(void);
