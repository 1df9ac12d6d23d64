/* SPDX-License-Identifier: Apache-2.0 */
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
#pragma once

#include <stdbool.h>

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
