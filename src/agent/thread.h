/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and their signals: how the agent's own is made, and what other threads hold back. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The size of the thread's stack: the C library takes the thread-local storage of all loaded
 * objects from it. Call it once, at the first start: a fork meanwhile would leave the child with
 * the loader's lock held.
 */
size_t thread_stack_bytes(void);

/*
 * Starts a thread, to be joined. A `stack_bytes` of 0 is what the program's threads have. 0, or the
 * reason why not: an errno.
 */
int thread_start(pthread_t *thread, void *(*function)(void *), void *argument, size_t stack_bytes);

/*
 * Blocks the program's signals in the calling thread, and of the faults those that the program does
 * not handle, or that its main thread blocks: it may wait for them with sigwait(). `main_blocked`
 * has bit N-1 for signal N.
 */
void thread_follow_signals(uint64_t main_blocked);

/* Takes a real-time priority, which is the program's, from the calling thread. */
void thread_leave_real_time(void);

/*
 * Writing to a closed socket, or beyond a limit of the program's, must not kill a thread of the
 * program that called the agent. SIGPIPE and SIGXFSZ, which are sent to the thread that writes, are
 * blocked meanwhile, and those that came are discarded.
 */
struct held_signals {
	sigset_t before;
};

void held_signals_begin(struct held_signals *held);
void held_signals_end(const struct held_signals *held);
