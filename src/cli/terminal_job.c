/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal_job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "client/process.h"

/* The signals that stop a job. */
static const int stop_signals[] = { SIGTSTP, SIGTTIN, SIGTTOU };
enum { STOP_SIGNALS = sizeof stop_signals / sizeof stop_signals[0] };

static bool can_be_stopped(void)
{
	struct sigaction action;

	for (int i = 0; i < STOP_SIGNALS; i++) {
		if (sigaction(stop_signals[i], NULL, &action) != 0 || action.sa_handler != SIG_DFL)
			return false;
	}
	return true;
}

static bool is_pipe(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

/* Scripts and wrappers (time, timeout) are the leaders of what they start. */
static bool is_alone_in_group(void)
{
	return getpgrp() == getpid() && !is_pipe(STDOUT_FILENO) && !is_pipe(STDERR_FILENO);
}

static bool is_in_foreground(int terminal_fd)
{
	return tcgetpgrp(terminal_fd) == getpgrp();
}

void terminal_job_init(struct terminal_job *job)
{
	CLEANUP(fd_cleanup) int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

	*job = (struct terminal_job){ .terminal_fd = -1 };
	if (fd >= 0 && is_in_foreground(fd) && is_alone_in_group() && can_be_stopped())
		job->terminal_fd = TAKE_FD(fd);
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

/* Whether the program has the terminal: a shell may have given it to others meanwhile. */
static bool has_terminal(const struct terminal_job *job)
{
	return tcgetpgrp(job->terminal_fd) == job->pid;
}

static void take_terminal(const struct terminal_job *job)
{
	if (has_terminal(job))
		set_foreground(job, getpgrp());
}

void terminal_job_deinit(struct terminal_job *job)
{
	if (job->terminal_fd < 0)
		return;
	take_terminal(job);
	close(job->terminal_fd);
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

/* All of its group, as the terminal and a shell do; it may have left that. */
static void signal_group(const struct terminal_job *job, int number)
{
	if (kill(-job->pid, number) != 0)
		kill(job->pid, number);
}

void terminal_job_continue(const struct terminal_job *job)
{
	if (job->terminal_fd >= 0)
		signal_group(job, SIGCONT);
}

static void resume(struct terminal_job *job)
{
	if (job->wants_terminal && is_in_foreground(job->terminal_fd)) {
		set_foreground(job, job->pid);
		job->wants_terminal = false;
	}
	signal_group(job, SIGCONT);
}

static bool is_pending(int number)
{
	sigset_t pending;

	return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

static bool is_to_end(void)
{
	return is_pending(SIGHUP) || is_pending(SIGINT) || is_pending(SIGQUIT) ||
	       is_pending(SIGTERM);
}

/*
 * The program has stopped; now heapctl does, for its shell to see. Where no shell could let it
 * continue (an orphaned group), the kernel does not stop it, and it returns false. After a stop,
 * SIGCONT is pending, which resumes the program; so is what ends it, and is not to wait.
 */
static bool stop_with_program(int number)
{
	sigset_t set;

	if (is_to_end())
		return true;
	kill(0, number);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return is_pending(SIGCONT);
}

/* What stops for the terminal continues where nothing has stopped. */
static void stop_for_terminal(struct terminal_job *job, int number)
{
	if (!stop_with_program(number) && is_in_foreground(job->terminal_fd))
		resume(job);
}

static void pass_on(struct terminal_job *job, const siginfo_t *signal_info)
{
	const int number = signal_info->si_signo;

	switch (number) {
	case SIGCONT:
		resume(job);
		break;
	case SIGTSTP:
		job->wants_terminal |= has_terminal(job);
		take_terminal(job);
		signal_group(job, SIGTSTP);
		stop_for_terminal(job, SIGTSTP);
		break;
	case SIGHUP:
	case SIGINT:
	case SIGQUIT:
	case SIGTERM:
		/* One that has stopped would not see it. */
		signal_group(job, number);
		terminal_job_continue(job);
		break;
	case SIGWINCH:
		signal_group(job, number);
		break;
	default:
		kill(job->pid, number);
	}
}

void terminal_job_signal(struct terminal_job *job, const siginfo_t *signal_info)
{
	if (job->terminal_fd >= 0)
		pass_on(job, signal_info);
	/*
	 * What the kernel sends for a terminal, it sends to the program as well, but of a hang-up
	 * only the leader of the session hears.
	 */
	else if (signal_info->si_code != SI_KERNEL ||
		 (signal_info->si_signo == SIGHUP && getsid(0) == getpid()))
		kill(job->pid, signal_info->si_signo);
}

/* A program that handles the kernel's stops, as top does, stops by another signal then. */
static bool handles_stops(pid_t pid)
{
	CLEANUP(buffer_deinit) struct buffer status = BUFFER_OR_EXIT;

	return file_try_read(&status, "/proc/%d/status", (int)pid) &&
	       (process_status_has_signal(buffer_string(&status), "SigCgt", SIGTTIN) ||
		       process_status_has_signal(buffer_string(&status), "SigCgt", SIGTTOU));
}

void terminal_job_has_stopped(struct terminal_job *job, int signal_number)
{
	if (job->terminal_fd < 0)
		return;
	if (has_terminal(job)) {
		job->wants_terminal = true;
		take_terminal(job);
		stop_for_terminal(job, SIGTSTP);
	} else if (signal_number == SIGTTIN || signal_number == SIGTTOU ||
		   (signal_number == SIGSTOP && handles_stops(job->pid))) {
		job->wants_terminal = true;
		if (is_in_foreground(job->terminal_fd))
			resume(job);
		else
			stop_for_terminal(job, signal_number == SIGSTOP ? SIGTTOU : signal_number);
	} else if (signal_number == SIGTSTP && !is_pending(SIGCONT)) {
		/* By itself: without a shell it stays so. What others stop, they continue. */
		(void)stop_with_program(SIGTSTP);
	}
}
