/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of another process, as /proc shows them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/remote.h"
#include "inject/stack_rule.h"

enum { THREADS_MAX = 4096 };

struct thread_list {
	pid_t threads[THREADS_MAX];
	size_t count;
};

/* ERROR_NOT_FOUND when the process has ended. */
MUST_CHECK bool threads_read(struct thread_list *list, pid_t pid, struct error *err);

/*
 * Our number of the thread that knows itself by `own_number`, in its namespace; 0 when there is
 * none.
 */
pid_t threads_find(pid_t pid, pid_t own_number);

/* Whether it is one of the process still: its number may be another's by now. */
bool threads_has(const struct remote_process *remote, pid_t thread);

/* Its state in /proc: 'R', 'S', 'D' and others; 0 when it has ended. */
char thread_state(pid_t thread);

/*
 * Whether it is of the users of the main thread (real, effective, saved, of files): a server may
 * give each thread its own by system calls of its own. Also where that cannot be seen, or the main
 * thread has ended.
 */
bool thread_has_users_of_main(pid_t pid, pid_t thread);

/*
 * Where a thread waits in a system call, and in which, without stopping it; false for one that
 * runs.
 */
bool thread_read_waiting(pid_t pid, pid_t thread, struct stack_registers *registers, long *number);
