/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process the agent is in, and its threads and their signals: how the agent's own is made,
 * and what other threads hold back.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Which process the agent's state belongs to. A child has a copy of all of it, but a child made
 * by raw clone(2) ran no fork handler, and its pid may be the parent's (pid 1 of a new pid
 * namespace). So the mark is in a page that the kernel clears in every child (MADV_WIPEONFORK);
 * before Linux 4.14, which cannot, the pid alone decides.
 *
 * A child made by fork is marked as new and nothing else is written in it, as each page that it
 * writes to costs it a fault and most children exec or exit at once. The agent's state is reset
 * (adopted) when the child first uses the agent.
 *
 * Any thread; process_mark_set_new_child in a child after fork, where it makes no system call.
 */

/* Puts functions that run in each child beside each other in the library. */
#define FORK_HANDLER __attribute__((hot))

/* Once, before the others and before there is a fork handler. */
void process_mark_open(void);

/* Marks the calling process. */
void process_mark_set(void);

/* Marks a child made by fork, from its fork handler. */
void process_mark_set_new_child(void);

/* Makes no system call. */
bool process_mark_is_new_child(void);

/*
 * True in one thread of a new child, which resets the state and calls process_mark_end_child;
 * the others wait until then.
 */
bool process_mark_begin_child(void);
void process_mark_end_child(void);

/* Whether the calling process is the one that was marked last. Not of a new child. */
bool process_mark_is_ours(void);

/*
 * The size of the thread's stack: the C library takes the thread-local storage of all loaded
 * objects from it.
 */
size_t thread_stack_bytes(void);

/* What is mapped of the module that contains this code: it stays when an attached agent has ended.
 */
size_t thread_own_module_bytes(void);

/*
 * Starts a thread, to be joined. A `stack_bytes` of 0 is what the program's threads have. 0, or the
 * reason why not: an errno.
 */
int thread_start(pthread_t *thread, void *(*function)(void *), void *argument, size_t stack_bytes);

/*
 * Lets the loader bind now what the C library calls to start a thread with such a stack, a new one
 * or one that it has kept from another thread.
 */
void thread_bind_start(size_t stack_bytes);

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

/*
 * A main thread that ends by pthread_exit while other threads go on. The process ends with its
 * last thread, whose C library then calls exit(0). The agent's thread must not be that one: it
 * blocks all signals, has a small stack, and may have its own table of descriptors, in which
 * the program's exit handlers would write nowhere.
 *
 * So another thread takes the main thread's place: it has a stack and a table of descriptors as
 * the program's threads have, counts the threads once a second, and ends the agent and then itself
 * when only the agent is left. It is created when the main thread ends, and costs nothing before.
 *
 * A main thread that a seccomp filter kills alone runs no destructor, and no code of the program
 * runs when the other threads have ended: then the agent's thread is the last one and ends the
 * process (main_thread_end_process).
 */

struct main_thread_agent {
	/* The agent's threads now; any thread. */
	unsigned (*count_threads)(void);
	/* Ends the agent for good and waits until its thread has left. */
	void (*end)(void);
};

/* At the loading of the library: notices the end of the calling thread, if that is the main thread.
 */
void main_thread_note(void);

/* In a child after fork, whose main thread the calling one is. Makes no system call. */
void main_thread_note_child(void);

/* The same at any time. Makes no system call: the thread may be in a sandbox. */
void main_thread_note_by_stack(void);

/* In a child before its agent begins: forgets that the parent's main thread has ended. */
void main_thread_reset(void);

/* There is an agent to be ended. */
void main_thread_watch(const struct main_thread_agent *agent);

/*
 * Before a thread of the agent is made: false when the main thread has ended and there can be no
 * thread in its place.
 */
MUST_CHECK bool main_thread_allow_agent(void);

/*
 * From the agent's thread, which is the last one beside a main thread that ended with `status`, as
 * waitpid() reports it: ends the process as it would have ended without the agent. Takes no lock,
 * as the main thread may have held any.
 */
_Noreturn void main_thread_end_process(int status);

/* The library is unloaded, or the process ends. */
void main_thread_forget(void);
