/* SPDX-License-Identifier: Apache-2.0 */
#include "client/wake.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "client/process_state.h"
#include "client/wake_choice.h"

enum {
	PATH_BYTES = 96,
	/* So long a thread is looked for that need not wait its time anew. */
	CHOOSE_MS = 1000,
	/* A thread that was started needs some time to make its socket. */
	SEND_AGAIN_MS = 100,
	/* A child may be about to exec, and what it becomes does not handle the signal. */
	YOUNGEST_MS = 100,
};

static int wake_signal(void)
{
	return SIGRTMAX - 3;
}

static bool read_of(pid_t pid, pid_t thread, const char *name, struct buffer *text)
{
	struct error ignored;
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)thread, name);
	buffer_clear(text);
	return file_read(path, text, &ignored);
}

static bool handles_signal(pid_t pid, int *filters)
{
	CLEANUP(buffer_cleanup) struct buffer status = { 0 };

	buffer_init(&status, &memory_or_exit);
	if (!read_of(pid, pid, "status", &status))
		return false;
	*filters = wake_filters(buffer_string(&status));
	return wake_set_has(buffer_string(&status), "SigCgt", wake_signal());
}

enum wake_state wake_look(const struct process *process)
{
	struct process_modules modules;
	struct error ignored;
	int filters = 0;

	/* Its environment would tell too, but Redis, for one, writes its title over that. */
	if (!process_read_modules(process->pid, &modules, &ignored) ||
		(modules.agent[0] == '\0' && !modules.has_agent_mark) ||
		!handles_signal(process->pid, &filters))
		return WAKE_NO_AGENT;
	if (filters < 0 || filters > modules.filters_at_start)
		return WAKE_SANDBOXED;
	return process_has_agent_thread(process) ? WAKE_AWAKE : WAKE_ASLEEP;
}

bool wake_refuse(const struct process *process, struct error *err)
{
	error_set(err, ERROR_STATE,
		"%s[%d] has entered a sandbox (seccomp): its agent is not woken, as the agent's "
		"system calls could end it",
		process->name, (int)process->pid);
	return error_hint(err, "profile its parent, or turn the sandbox off for a while");
}

/* The number behind a label of status or limits; ULONG_MAX where there is none, or "unlimited". */
static unsigned long number_behind(struct buffer *text, const char *label)
{
	const char *const at = strstr(buffer_string(text), label);
	const char *const number = at == NULL ? "" : at + strlen(label);
	char *end = NULL;
	const unsigned long value = strtoul(number, &end, 10);

	return end == number ? ULONG_MAX : value;
}

bool wake_can_make_thread(const struct process *process, struct error *err)
{
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };

	buffer_init(&text, &memory_or_exit);
	if (process->effective_uid == 0 || !read_of(process->pid, process->pid, "limits", &text))
		return true;
	const unsigned long limit = number_behind(&text, "\nMax processes ");
	if (!read_of(process->pid, process->pid, "status", &text))
		return true;
	const unsigned long threads = number_behind(&text, "\nThreads:");
	if (threads == ULONG_MAX || limit > threads)
		return true;
	error_set(err, ERROR_STATE,
		"%s[%d] cannot start its agent: its limit of processes (RLIMIT_NPROC) is %lu, so "
		"it may start no thread",
		process->name, (int)process->pid, limit);
	return error_hint(err, "raise the limit; haproxy's workers set it to 0 unless their "
			       "configuration has insecure-fork-wanted");
}

/* The best thread to interrupt; the main thread when others are as good. */
static pid_t choose_thread(pid_t pid, struct wake *wake, struct wake_choice *best)
{
	CLEANUP(buffer_cleanup) struct buffer status = { 0 };
	CLEANUP(buffer_cleanup) struct buffer call = { 0 };
	char path[PATH_BYTES];
	pid_t chosen = 0;

	buffer_init(&status, &memory_or_exit);
	buffer_init(&call, &memory_or_exit);
	*best = (struct wake_choice){ .rank = WAKE_NEVER };
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *const tasks = opendir(path);
	if (tasks == NULL)
		return 0;
	wake->all_block = true;
	for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		const pid_t thread = atoi(entry->d_name);
		if (!read_of(pid, thread, "status", &status))
			continue;
		const bool can_read = read_of(pid, thread, "syscall", &call);
		const struct wake_choice choice = wake_choose(buffer_string(&status),
			can_read ? buffer_string(&call) : NULL, wake_signal());
		wake->all_block &= choice.blocks_signal;
		if (choice.rank < best->rank || (choice.rank == best->rank && thread == pid)) {
			*best = choice;
			chosen = thread;
		}
	}
	closedir(tasks);
	if (!wake->all_block)
		wake->blocked_since_ms = 0;
	else if (wake->blocked_since_ms == 0)
		wake->blocked_since_ms = clock_monotonic_ms();
	return best->rank == WAKE_NEVER ? 0 : chosen;
}

/* One that waits its time anew is best asked when it has just begun to wait. */
static bool is_the_moment(struct wake *wake, pid_t thread, const struct wake_choice *choice)
{
	const bool has_begun = wake->thread == thread && wake->switches != choice->switches;

	wake->thread = thread;
	wake->switches = choice->switches;
	return choice->rank == WAKE_EXACT || has_begun ||
	       clock_monotonic_ms() - wake->begun_ms >= CHOOSE_MS;
}

/* Through a descriptor of the process where the kernel chooses its main thread anyway. */
static bool send_signal(pid_t pid, int pid_fd, pid_t thread, uint64_t value)
{
	siginfo_t request = { .si_signo = wake_signal(), .si_code = SI_QUEUE };

	request.si_pid = getpid();
	request.si_uid = getuid();
	memcpy(&request.si_value, &value, sizeof value);
	if (thread == pid)
		return syscall(SYS_pidfd_send_signal, pid_fd, wake_signal(), &request, 0) == 0;
	return syscall(SYS_rt_tgsigqueueinfo, pid, thread, wake_signal(), &request) == 0;
}

bool wake_ask(const struct process *process, struct wake *wake, struct error *err)
{
	/* Opened before the check: from then on it cannot become another process. */
	CLEANUP(fd_cleanup) const int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	struct wake_choice choice;
	int filters = 0;

	if (fd < 0)
		return error_system(err, errno, "process %d", (int)process->pid);
	switch (wake_look(process)) {
	case WAKE_NO_AGENT:
		return error_set(err, ERROR_NOT_FOUND, "process %d has no agent to be woken",
			(int)process->pid);
	case WAKE_SANDBOXED:
		return wake_refuse(process, err);
	case WAKE_AWAKE:
		if (wake->awake_since_ms == 0)
			wake->awake_since_ms = clock_monotonic_ms();
		return true;
	case WAKE_ASLEEP:
		wake->awake_since_ms = 0;
		break;
	}
	if (wake->begun_ms == 0)
		wake->begun_ms = clock_monotonic_ms();
	if (clock_monotonic_ms() - wake->sent_ms < SEND_AGAIN_MS ||
		process_age_ms(process->pid) < YOUNGEST_MS)
		return true;
	const pid_t thread = choose_thread(process->pid, wake, &choice);
	struct pollfd end = { .fd = fd, .events = POLLIN };
	if (thread == 0 || !is_the_moment(wake, thread, &choice) ||
		!handles_signal(process->pid, &filters) || poll(&end, 1, 0) != 0)
		return true;
	wake->sent_ms = clock_monotonic_ms();
	if (!send_signal(process->pid, fd, thread, choice.value) && errno != ESRCH)
		return error_system(
			err, errno, "waking the agent of process %d", (int)process->pid);
	return true;
}
