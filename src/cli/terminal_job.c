/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal_job.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"

void terminal_job_init(struct terminal_job *job)
{
	*job = (struct terminal_job){ .terminal_fd = open("/dev/tty", O_RDWR | O_CLOEXEC) };
}

static void set_foreground(const struct terminal_job *job, pid_t group)
{
	sigset_t set, before;

	/* Which the kernel would send to a process in the background. */
	sigemptyset(&set);
	sigaddset(&set, SIGTTOU);
	sigprocmask(SIG_BLOCK, &set, &before);
	tcsetpgrp(job->terminal_fd, group);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void take_terminal(struct terminal_job *job)
{
	if (job->has_terminal)
		set_foreground(job, getpgrp());
	job->has_terminal = false;
}

/* In the background, where a shell has put heapctl, the terminal is not its own to give. */
static bool is_in_foreground(const struct terminal_job *job)
{
	return tcgetpgrp(job->terminal_fd) == getpgrp();
}

static void give_terminal(struct terminal_job *job)
{
	if (!is_in_foreground(job))
		return;
	set_foreground(job, getpgid(job->pid));
	job->has_terminal = true;
	job->wants_terminal = false;
}

void terminal_job_deinit(struct terminal_job *job)
{
	take_terminal(job);
	fd_cleanup(&job->terminal_fd);
	job->terminal_fd = -1;
}

void terminal_job_add_signals(const struct terminal_job *job, sigset_t *set)
{
	if (job->terminal_fd >= 0)
		sigaddset(set, SIGTSTP);
}

void terminal_job_begin(struct terminal_job *job, pid_t pid)
{
	job->pid = pid;
	if (job->terminal_fd >= 0)
		setpgid(pid, pid);
}

/* All of its group, as the terminal does; it may have left that. */
static void signal_group(const struct terminal_job *job, int number)
{
	if (kill(-job->pid, number) != 0)
		kill(job->pid, number);
}

static void resume(struct terminal_job *job)
{
	if (job->wants_terminal)
		give_terminal(job);
	signal_group(job, SIGCONT);
}

void terminal_job_signal(struct terminal_job *job, const siginfo_t *signal_info)
{
	const int number = signal_info->si_signo;

	if (job->terminal_fd < 0) {
		/* What the kernel sends for a terminal, it sends to the program as well. */
		if (signal_info->si_code != SI_KERNEL)
			kill(job->pid, number);
	} else if (number == SIGCONT) {
		resume(job);
	} else if (signal_info->si_code != SI_KERNEL) {
		kill(job->pid, number);
	} else if (number != SIGALRM) {
		signal_group(job, number);
	}
}

/* As the kernel stops it for Ctrl-Z: not where no shell could let it continue. */
static void stop_heapctl(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

void terminal_job_stop(struct terminal_job *job)
{
	signal_group(job, SIGTSTP);
	stop_heapctl();
	resume(job);
}

void terminal_job_has_stopped(struct terminal_job *job, int signal_number)
{
	const bool asks = !job->has_terminal &&
			  (signal_number == SIGTTIN || signal_number == SIGTTOU);

	if (job->terminal_fd < 0 || !(asks || (job->has_terminal && signal_number == SIGTSTP)))
		return;
	job->wants_terminal = true;
	take_terminal(job);
	if (!asks || !is_in_foreground(job))
		stop_heapctl();
	resume(job);
}
