/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps forks apart from calls of the loader (dl_iterate_phdr, dlsym, dladdr, dlopen) that the
 * agent makes beside the program. Such a call holds the loader's locks, and the C library does not
 * reset them in a child: one that is forked meanwhile waits for ever at its next dlopen, thrown
 * exception or exit.
 *
 * So a fork waits until such a call has ended, and such a call until there is no fork. Both waits
 * are limited: the program may fork, or call the agent, where the other one waits for the same
 * thread.
 *
 * Resident code; any thread.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* Once, before the fork handlers are registered. */
void loader_use_open(void);

/* Around each call, or some that belong together. They may be nested. */
void loader_use_begin(void);
void loader_use_end(void);

/* dl_iterate_phdr between the two. */
int loader_iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *context);

/* For the program's own threads, which may be in a fork handler: false while there is a fork. */
bool loader_use_try_begin(void);

/* In the thread that forks: before, and afterwards in each of the two processes. */
void loader_use_before_fork(void);
void loader_use_after_fork(void);
void loader_use_after_fork_in_child(void);
