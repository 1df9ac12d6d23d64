/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on reading files that others made. The readers have budgets of their own
 * (symbol/work_budget.h, profile/codec.h); this is for what none of them counts: a terminal that
 * answers is worth more than a report that never comes, and a server's memory more than a report.
 * The gateway's worker has the same, with limits of its own (cli/render_worker.c).
 */
#pragma once

/* Processor time of all threads together, for each begin. */
enum { WATCHDOG_CPU_SECONDS = 300 };

/*
 * Until watchdog_end the process may take three quarters of the machine's memory, and
 * WATCHDOG_CPU_SECONDS; then it ends with a message that names `what`.
 */
void watchdog_begin(const char *what);
void watchdog_end(void);
