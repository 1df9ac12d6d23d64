/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that heapctl has started and waits for, at the terminal that both have.
 *
 * The terminal sends Ctrl-C to all processes of the group in its foreground, so a program in
 * heapctl's own group would have ended before heapctl has taken its profile. Where heapctl is a
 * command of its own that was typed there, the program gets another group, in the background, which
 * the terminal's signals reach through heapctl. Once it reads from the terminal, or sets it, the
 * kernel stops it; then heapctl gives it the terminal, as a shell does, and Ctrl-C with it.
 *
 * Elsewhere (in a script, a pipeline, the background, without a terminal) both stay in one group:
 * others in it would be stopped, or not be stopped, when they should not.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct terminal_job {
	int terminal_fd;     /* -1 where the program stays in heapctl's group */
	pid_t pid;	     /* of the program */
	bool wants_terminal; /* it was stopped for it, or had it when it was stopped */
};

/* Opens the terminal. */
void terminal_job_init(struct terminal_job *job);

/* Takes the terminal back. */
void terminal_job_deinit(struct terminal_job *job);

/* Adds the signals that stop heapctl at the terminal; they have to be blocked. */
void terminal_job_add_signals(const struct terminal_job *job, sigset_t *set);

/* Both in the child, before it executes the program, and in its parent: either may be the first. */
void terminal_job_begin(struct terminal_job *job, pid_t pid);

/* Continues a program that the terminal has stopped, for its agent to answer. */
void terminal_job_continue(const struct terminal_job *job);

/* Passes a signal on; SIGTSTP stops heapctl, too, and returns once it continues. */
void terminal_job_signal(struct terminal_job *job, const siginfo_t *signal_info);

/* Handles a stop of the program by that signal. */
void terminal_job_has_stopped(struct terminal_job *job, int signal_number);
