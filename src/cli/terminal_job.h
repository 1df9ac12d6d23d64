/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that heapctl has started and waits for, at the terminal that both have.
 *
 * The terminal sends Ctrl-C to all processes of the group in its foreground, so a program in
 * heapctl's own group would have ended before heapctl has taken its profile. It gets a group of its
 * own, in the background, which the terminal's signals reach through heapctl. Once it reads from the
 * terminal, or sets it, the kernel stops it; then heapctl gives it the terminal, as a shell does,
 * and Ctrl-C with it.
 *
 * Without a terminal (a service, cron) the program stays in heapctl's group.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct terminal_job {
	int terminal_fd; /* -1 for none */
	pid_t pid;	 /* of the program */
	bool has_terminal;
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

/* Passes a signal on that is one of the terminal's, or of its shell's. Not for SIGTSTP. */
void terminal_job_signal(struct terminal_job *job, const siginfo_t *signal_info);

/* Stops the program and heapctl, and returns once both continue. */
void terminal_job_stop(struct terminal_job *job);

/* Handles a stop of the program by that signal. */
void terminal_job_has_stopped(struct terminal_job *job, int signal_number);
