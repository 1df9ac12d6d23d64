/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which process the agent's state belongs to. A child has a copy of all of it, but a child made
 * by raw clone(2) ran no fork handler, and its pid may be the parent's (pid 1 of a new pid
 * namespace). So the mark is in a page that the kernel clears in every child (MADV_WIPEONFORK);
 * before Linux 4.14, which cannot, the pid alone decides.
 *
 * Any thread; process_mark_inherit in a child after fork, where it makes no system call.
 */
#pragma once

#include <stdbool.h>

/* Marks the calling process. */
void process_mark_set(void);

/* Marks a child made by fork, from its fork handler. */
void process_mark_inherit(void);

/* Whether the calling process is the one that was marked last. */
bool process_mark_is_ours(void);
