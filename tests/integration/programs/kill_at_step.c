/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command until one of its processes has made so many system calls after its first
 * ptrace(2), and kills them all just before the next one.
 *
 * usage: kill_at_step CALLS COMMAND...
 *
 * Prints the number of the call that was not made, and "ended" when the command came to its end.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_MAX = 64 };

static struct traced {
	pid_t pid;
	bool has_begun;
	long calls;
} processes[PROCESSES_MAX];

static struct traced *find(pid_t pid)
{
	for (int i = 0; i < PROCESSES_MAX; i++) {
		if (processes[i].pid == pid)
			return &processes[i];
	}
	for (int i = 0; i < PROCESSES_MAX; i++) {
		if (processes[i].pid == 0) {
			processes[i] = (struct traced){ .pid = pid };
			return &processes[i];
		}
	}
	abort();
}

static void kill_all(void)
{
	for (int i = 0; i < PROCESSES_MAX; i++) {
		if (processes[i].pid != 0)
			kill(processes[i].pid, SIGKILL);
	}
}

/* Whether the call that begins here is the one that must not be made. */
static bool is_last(struct traced *process, long calls)
{
	struct __ptrace_syscall_info call;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, process->pid, sizeof call, &call) <= 0 ||
		call.op != PTRACE_SYSCALL_INFO_ENTRY)
		return false;
	process->has_begun |= call.entry.nr == SYS_ptrace;
	if (!process->has_begun || process->calls++ < calls)
		return false;
	printf("%lld\n", (long long)call.entry.nr);
	return true;
}

int main(int argc, char **argv)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			     PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
	const long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	bool is_killed = false;
	int status;

	if (argc < 3)
		return 2;
	const pid_t command = fork();
	if (command == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execv(argv[2], argv + 2);
		_exit(127);
	}
	if (waitpid(command, &status, 0) != command ||
		ptrace(PTRACE_SETOPTIONS, command, NULL, (void *)options) != 0 ||
		ptrace(PTRACE_SYSCALL, command, NULL, NULL) != 0)
		return 1;
	find(command);
	for (;;) {
		const pid_t pid = waitpid(-1, &status, __WALL);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid < 0)
			break;
		struct traced *const process = find(pid);
		if (!WIFSTOPPED(status)) {
			process->pid = 0;
			continue;
		}
		const int number = WSTOPSIG(status);
		long handed_on = 0;
		if (number == (SIGTRAP | 0x80)) {
			if (!is_killed && is_last(process, calls)) {
				is_killed = true;
				kill_all();
				continue;
			}
		} else if (number != SIGTRAP && number != SIGSTOP) {
			handed_on = number;
		}
		ptrace(PTRACE_SYSCALL, pid, NULL, (void *)handed_on);
	}
	if (!is_killed)
		puts("ended");
	return 0;
}
