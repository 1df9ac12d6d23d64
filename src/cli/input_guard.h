/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on reading files that others made, beyond the readers' own budgets (symbol/work.h,
 * profile/profile_read.h): a damaged or hostile file ends the command with a message instead of
 * hanging the terminal or using up the machine's memory. The gateway's worker has limits of its own
 * (cli/render_worker.c).
 */
#pragma once

/*
 * Big files are mapped rather than read. When another process truncates one meanwhile, the kernel
 * sends SIGBUS; from now on that is a message with the file and the byte, and exit code 1. For the
 * whole process, once, before there are other threads.
 */
void input_guard_install(void);

/* Processor time of all threads together, for each begin. */
enum { INPUT_GUARD_CPU_SECONDS = 300 };

/*
 * Until input_guard_end the process may use three quarters of the machine's memory and
 * INPUT_GUARD_CPU_SECONDS; beyond that it ends with a message that names `what`.
 */
void input_guard_begin(const char *what);
void input_guard_end(void);
