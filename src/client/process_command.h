/* SPDX-License-Identifier: Apache-2.0 */
/* What a process shows of itself in ps(1). */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * The command line, with blanks between its arguments and lines, without control characters; ""
 * where it cannot be read. `is_title`: it is a title that the process has written over it. Free
 * with free().
 */
char *process_command_read(pid_t pid, bool *is_title);
