/* SPDX-License-Identifier: Apache-2.0 */
/* Starts this program again, with other arguments, as a process of the gateway's own. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * The process gets these descriptors as 0, 1, 2, ... and no others, the environment, and signals as
 * they are by default. `arguments` begins with the name and ends with NULL; `what` names the
 * process in errors. Collect it with waitpid.
 */
MUST_CHECK bool own_process_start(const char *what, char *const *arguments, const int *fds,
	size_t fd_count, pid_t *pid, struct error *err);

/* Readable once the process has ended. */
MUST_CHECK bool own_process_open(const char *what, pid_t pid, int *fd, struct error *err);
