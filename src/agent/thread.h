/* SPDX-License-Identifier: Apache-2.0 */
/* How the agent's thread is made: a small stack, and none of the program's signals. */
#pragma once

#include <pthread.h>
#include <stddef.h>

/*
 * What the thread needs for a stack: the C library takes the thread-local storage of all loaded
 * objects from it. To be found out once, at the first start: a fork in the middle of it leaves the
 * child the loader's lock held.
 */
size_t thread_stack_bytes(void);

/*
 * Starts a thread, to be joined. A `stack_bytes` of 0 is what the program's threads have. 0, or the
 * reason why not: an errno.
 */
int thread_start(pthread_t *thread, void *(*function)(void *), void *argument, size_t stack_bytes);
