/* SPDX-License-Identifier: Apache-2.0 */
#include "client/wake.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "client/mapped_files.h"
#include "client/process.h"

enum {
	PATH_BYTES = 96,
	/* How long to search for a thread whose wait does not start again. */
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
	return file_try_read(text, "/proc/%d/task/%d/%s", (int)pid, (int)thread, name);
}

static bool handles_signal(pid_t pid, int *filters)
{
	CLEANUP(buffer_deinit) struct buffer status = BUFFER_OR_EXIT;

	if (!read_of(pid, pid, "status", &status))
		return false;
	*filters = wake_filters(buffer_string(&status));
	return process_status_has_signal(buffer_string(&status), "SigCgt", wake_signal());
}

enum wake_state wake_state_of(const struct process *process, const struct process_modules *modules)
{
	int filters = 0;

	/* Not from its environment, which Redis, for one, overwrites with its title. */
	if (!modules->has_agent_mark || !handles_signal(process->pid, &filters))
		return WAKE_NO_AGENT;
	if (filters < 0 || filters > modules->filters_at_start)
		return WAKE_SANDBOXED;
	return process_has_agent_thread(process) ? WAKE_AWAKE : WAKE_ASLEEP;
}

enum wake_state wake_read_state(const struct process *process)
{
	struct process_modules modules;
	struct error ignored;

	return process_read_modules(process->pid, &modules, &ignored)
		       ? wake_state_of(process, &modules)
		       : WAKE_NO_AGENT;
}

/* The target that has forked it, which has executed no other program since. */
static bool read_parent_target(const struct process *process, struct process *parent)
{
	struct error ignored;

	return process->exe[0] != '\0' && process_read(process->parent, parent, &ignored) &&
	       strcmp(parent->exe, process->exe) == 0 &&
	       (wake_read_state(parent) != WAKE_NO_AGENT || process_has_agent_thread(parent));
}

static bool is_agent_disabled(pid_t pid)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	struct error ignored;

	if (!process_read_environment(pid, &environment, &ignored))
		return false;
	const char *const children = process_environment_find(&environment, "HEAPCTL_CHILDREN");
	return children != NULL && strcmp(children, "no") == 0;
}

bool wake_explain_child(const struct process *process, struct error *err)
{
	struct process parent;

	if (wake_read_state(process) != WAKE_NO_AGENT || !read_parent_target(process, &parent))
		return false;
	if (is_agent_disabled(process->pid)) {
		error_set(err, ERROR_NOT_FOUND,
			"%s[%d] has no agent: HEAPCTL_CHILDREN=no disables it", process->name,
			(int)process->pid);
		error_hint(err, "start its parent without that variable, or profile the parent");
		return true;
	}
	/* As of one that was attached. */
	if (wake_read_state(&parent) == WAKE_NO_AGENT) {
		error_set(err, ERROR_NOT_FOUND, "%s[%d] has no agent: only its parent has one",
			process->name, (int)process->pid);
		error_hint(err, "heapctl attach %d loads one", (int)process->pid);
		return true;
	}
	error_set(err, ERROR_NOT_FOUND,
		"%s[%d] has no agent of its own: it has reset signal %d (SIGRTMAX-3), which wakes "
		"the agent of a child",
		process->name, (int)process->pid, wake_signal());
	error_hint(err,
		"heapctl attach %d loads one now; HEAPCTL_CHILDREN=thread in its parent's "
		"environment gives each child one",
		(int)process->pid);
	return true;
}

bool wake_refuse(const struct process *process, struct error *err)
{
	error_set(err, ERROR_STATE,
		"%s[%d] has entered a sandbox (seccomp): its agent is not woken, as the agent's "
		"system calls could end it",
		process->name, (int)process->pid);
	return error_hint(err, "profile its parent, or switch the sandbox off for a time");
}

static unsigned long read_file_limit(const struct process *process)
{
	return process_read_limit(process->pid, "Max open files");
}

bool wake_can_open_files(const struct process *process, struct error *err)
{
	enum { NEEDED = 16 }; /* with the three standard ones, and for a profile */
	const unsigned long limit = read_file_limit(process);

	if (limit >= NEEDED)
		return true;
	error_set(err, ERROR_STATE,
		"%s[%d] leaves its agent no descriptors: its limit of open files "
		"(RLIMIT_NOFILE) is %lu",
		process->name, (int)process->pid, limit);
	return error_hint(err, "prlimit --nofile=64 --pid %d raises the limit", (int)process->pid);
}

/* The descriptors below `limit` of a thread, which may have a table of its own. */
static unsigned long count_descriptors(
	const struct process *process, pid_t thread, unsigned long limit)
{
	char path[PATH_BYTES];
	unsigned long count = 0;

	snprintf(path, sizeof path, "/proc/%d/task/%d/fd", (int)process->pid, (int)thread);
	DIR *const descriptors = opendir(path);
	for (struct dirent *entry; descriptors != NULL && (entry = readdir(descriptors)) != NULL;)
		count += isdigit((unsigned char)entry->d_name[0]) &&
			 strtoul(entry->d_name, NULL, 10) < limit;
	if (descriptors != NULL)
		closedir(descriptors);
	return count;
}

bool wake_has_free_descriptor(const struct process *process, struct error *err)
{
	const unsigned long limit = read_file_limit(process);

	if (count_descriptors(process, process_living_thread(process->pid), limit) < limit)
		return true;
	error_set(err, ERROR_STATE,
		"%s[%d] leaves its agent no descriptors: it has opened all that its limit of open "
		"files (RLIMIT_NOFILE) permits, %lu",
		process->name, (int)process->pid, limit);
	return error_hint(err, "prlimit --nofile=%lu --pid %d raises the limit", limit + 64,
		(int)process->pid);
}

bool wake_can_accept(const struct process *process, struct error *err)
{
	const unsigned long limit = read_file_limit(process);

	if (count_descriptors(process, process_agent_thread(process), limit) < limit)
		return true;
	error_set(err, ERROR_STATE,
		"%s[%d] does not answer, and has no descriptor left for its agent's client: its "
		"limit of open files (RLIMIT_NOFILE) is %lu",
		process->name, (int)process->pid, limit);
	return error_hint(err, "prlimit --nofile=%lu --pid %d raises the limit", limit + 64,
		(int)process->pid);
}

/* Rights in another one exempt from no limit. */
static bool is_in_first_user_namespace(const char *pid)
{
	const ino_t first_inode = 0xEFFFFFFD; /* PROC_USER_INIT_INO */
	char path[PATH_BYTES];
	struct stat status;

	snprintf(path, sizeof path, "/proc/%s/ns/user", pid);
	return stat(path, &status) != 0 || status.st_ino == first_inode;
}

bool wake_limit_permits_thread(
	const char *status, const char *limits, bool zero_is_root, bool has_first_rights)
{
	enum { SYS_ADMIN = 21, SYS_RESOURCE = 24 };
	const uint64_t exempting = UINT64_C(1) << SYS_ADMIN | UINT64_C(1) << SYS_RESOURCE;
	const unsigned long limit = process_number_after(limits, "\nMax processes ");
	const unsigned long threads = process_number_after(status, "\nThreads:");
	const char *const capabilities = strstr(status, "\nCapEff:");

	if (zero_is_root && process_number_after(status, "\nUid:") == 0)
		return true;
	if (has_first_rights && capabilities != NULL &&
		(strtoull(capabilities + strlen("\nCapEff:"), NULL, 16) & exempting) != 0)
		return true;
	return threads == ULONG_MAX || limit > threads;
}

bool wake_can_make_thread(const struct process *process, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer limits = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer status = BUFFER_OR_EXIT;
	char pid[16];

	snprintf(pid, sizeof pid, "%d", (int)process->pid);
	if (!read_of(process->pid, process->pid, "limits", &limits) ||
		!read_of(process->pid, process->pid, "status", &status) ||
		wake_limit_permits_thread(buffer_string(&status), buffer_string(&limits),
			is_in_first_user_namespace("self"), is_in_first_user_namespace(pid)))
		return true;
	const unsigned long limit =
		process_number_after(buffer_string(&limits), "\nMax processes ");
	error_set(err, ERROR_STATE,
		"%s[%d] cannot start its agent: its limit of processes (RLIMIT_NPROC) is %lu, so "
		"it cannot start a thread",
		process->name, (int)process->pid, limit);
	return error_hint(err, "raise the limit; haproxy's workers set it to 0 unless their "
			       "configuration has insecure-fork-wanted");
}

/* The best thread to interrupt; the main thread when others are as good. */
static pid_t choose_thread(pid_t pid, struct wake *wake, struct wake_choice *best)
{
	CLEANUP(buffer_deinit) struct buffer status = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer call = BUFFER_OR_EXIT;
	char path[PATH_BYTES];
	pid_t chosen = 0;

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

bool wake_can_take_signal(const struct process *process, struct error *err)
{
	enum { LOOKS = 4, LOOK_AGAIN_MS = 10 };
	struct wake wake = { 0 };
	struct wake_choice ignored;

	for (int i = 0; i < LOOKS; i++) {
		if (i > 0)
			poll(NULL, 0, LOOK_AGAIN_MS);
		if (choose_thread(process->pid, &wake, &ignored) != 0 || !wake.all_block)
			return true;
	}
	error_set(err, ERROR_STATE,
		"%s[%d] does not wake its agent: all its threads block signal %d (SIGRTMAX-3), "
		"which wakes it",
		process->name, (int)process->pid, wake_signal());
	return error_hint(err, "start it with HEAPCTL_CHILDREN=thread, or without "
			       "HEAPCTL_THREAD=on-demand");
}

bool wake_check_files(const struct process *process, struct error *err)
{
	if (mapped_files_check(process, err))
		return true;
	return error_hint(err,
		"its agent is not woken: the loader may read that file when a thread is started, "
		"which then ends the process; restart it");
}

/* A thread whose wait starts again in full is best interrupted just after it began to wait. */
static bool may_signal_now(struct wake *wake, pid_t thread, const struct wake_choice *choice)
{
	const bool has_begun = wake->thread == thread && wake->switches != choice->switches;

	wake->thread = thread;
	wake->switches = choice->switches;
	return choice->rank == WAKE_EXACT || has_begun ||
	       clock_monotonic_ms() - wake->begun_ms >= CHOOSE_MS;
}

/*
 * To the chosen thread alone. A signal to the process would interrupt its main thread, too, but the
 * agent that an earlier signal has started may take it from there: then no handler resumes the
 * call.
 */
static bool send_signal(pid_t pid, int pid_fd, pid_t thread, uint64_t value)
{
	enum { SIGNAL_THREAD = 1 }; /* PIDFD_SIGNAL_THREAD of Linux 6.9 */
	siginfo_t request = { .si_signo = wake_signal(), .si_code = SI_QUEUE };

	request.si_pid = getpid();
	request.si_uid = getuid();
	memcpy(&request.si_value, &value, sizeof value);
	/* The descriptor stands for the main thread: it cannot become that of another process. */
	if (thread == pid &&
		syscall(SYS_pidfd_send_signal, pid_fd, wake_signal(), &request, SIGNAL_THREAD) == 0)
		return true;
	return syscall(SYS_rt_tgsigqueueinfo, pid, thread, wake_signal(), &request) == 0;
}

static bool explain_full_queue(const struct process *process, struct error *err)
{
	error_set(err, ERROR_STATE,
		"%s[%d] does not wake its agent: its user has as many signals waiting as its limit "
		"allows (RLIMIT_SIGPENDING)",
		process->name, (int)process->pid);
	return error_hint(err,
		"prlimit --sigpending=1024 --pid %d raises the limit; HEAPCTL_CHILDREN=thread, or "
		"no HEAPCTL_THREAD=on-demand, needs no signal",
		(int)process->pid);
}

/*
 * Its thread could make no socket when it began, or has lost it: the reason may be gone. Best
 * effort: an agent that does not read the signal is not found, as before. The value 0 starts no
 * agent.
 */
static void ask_for_socket(const struct process *process, int pid_fd, struct wake *wake)
{
	CLEANUP(buffer_deinit) struct buffer status = BUFFER_OR_EXIT;
	const pid_t thread = process_agent_thread(process);
	int filters = 0;

	if (wake->asked_for_socket || thread == 0 ||
		clock_monotonic_ms() < wake->awake_since_ms + WAKE_ASK_MS ||
		!handles_signal(process->pid, &filters) ||
		!read_of(process->pid, thread, "status", &status))
		return;
	/* In a linked agent, which does not read them, signals would pile up. */
	if (!process_status_has_signal(buffer_string(&status), "SigBlk", wake_signal()) ||
		process_status_has_signal(buffer_string(&status), "SigPnd", wake_signal()))
		return;
	wake->asked_for_socket = true;
	(void)send_signal(process->pid, pid_fd, thread, 0);
}

bool wake_request(const struct process *process, struct wake *wake, struct error *err)
{
	/* Opened before the check: from then on it cannot become another process. */
	CLEANUP(fd_cleanup) const int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	struct wake_choice choice;
	int filters = 0;

	if (fd < 0 && errno != ESRCH)
		return error_system(err, errno, "process %d", (int)process->pid);
	if (fd < 0 || process_has_ended(process))
		return error_set(
			err, ERROR_NOT_FOUND, "%s[%d] has ended", process->name, (int)process->pid);
	switch (wake_read_state(process)) {
	case WAKE_NO_AGENT:
		return error_set(
			err, ERROR_NOT_FOUND, "process %d has no agent to wake", (int)process->pid);
	case WAKE_SANDBOXED:
		return wake_refuse(process, err);
	case WAKE_AWAKE:
		if (wake->awake_since_ms == 0)
			wake->awake_since_ms = clock_monotonic_ms();
		ask_for_socket(process, fd, wake);
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
	/* Before each signal: it could be the first that starts a thread. */
	if (!wake_check_files(process, err))
		return false;
	const pid_t thread = choose_thread(process->pid, wake, &choice);
	struct pollfd end = { .fd = fd, .events = POLLIN };
	if (thread == 0 || !may_signal_now(wake, thread, &choice) ||
		!handles_signal(process->pid, &filters) || poll(&end, 1, 0) != 0)
		return true;
	wake->sent_ms = clock_monotonic_ms();
	wake->sent++;
	if (send_signal(process->pid, fd, thread, choice.value) || errno == ESRCH)
		return true;
	if (errno == EAGAIN)
		return explain_full_queue(process, err);
	return error_system(err, errno, "waking the agent of process %d", (int)process->pid);
}

/* docs/protocol.md: the word, and the bits of the signal's value. */
enum {
	WORD = 0x6c746368,
	NUMBER_SHIFT = 32,
	NUMBER_BITS = 10,
	FILTERS_SHIFT = 42,
	FILTERS_UNKNOWN = 255,
	CHECK_SHIFT = 50,
	CHECK_BITS = 14,
};

/* A line of /proc/PID/task/TID/syscall: number, six arguments, stack and instruction pointer. */
struct call {
	int number;
	uint64_t arguments[6], stack, instruction;
};

int wake_filters(const char *status)
{
	const char *const count = process_status_field(status, "Seccomp_filters");
	enum { NONE, STRICT };
	const int mode = atoi(process_status_field(status, "Seccomp"));

	if (mode == NONE)
		return 0;
	return mode == STRICT || *count == '\0' ? -1 : atoi(count);
}

static bool parse_call(const char *line, struct call *call)
{
	uint64_t *const a = call->arguments;

	return sscanf(line,
		       "%d %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		       " %" SCNx64 " %" SCNx64,
		       &call->number, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &call->stack,
		       &call->instruction) == 9 &&
	       call->number >= 0;
}

static enum wake_rank rank_wait(bool is_endless)
{
	return is_endless ? WAKE_EXACT : WAKE_ANEW;
}

/* Interrupted, such a call returns with the part that it has, which cannot be undone. */
static enum wake_rank rank_receive(bool waits_for_all, enum wake_rank rank)
{
	return waits_for_all ? WAKE_NEVER : rank;
}

static enum wake_rank rank_call(const struct call *call)
{
	enum { ABSOLUTE = 1 };
	const uint64_t *const a = call->arguments;

	switch (call->number) {
#if defined(__x86_64__)
	case SYS_poll:
		return rank_wait((int)a[2] < 0);
	case SYS_epoll_wait:
		return rank_wait((int)a[3] < 0);
	case SYS_select:
	case SYS_pause:
		return WAKE_EXACT;
#endif
	case SYS_epoll_pwait:
		return rank_wait((int)a[3] < 0);
	case SYS_epoll_pwait2:
		return rank_wait(a[3] == 0);
	case SYS_nanosleep:
		return rank_wait(a[1] != 0);
	case SYS_clock_nanosleep:
		return rank_wait((a[1] & ABSOLUTE) != 0 || a[3] != 0);
	/* The kernel leaves the rest of their time where they find it. */
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_rt_sigsuspend:
	case SYS_read:
	case SYS_readv:
	case SYS_accept:
	case SYS_accept4:
	case SYS_wait4:
	case SYS_waitid:
		return WAKE_EXACT;
	case SYS_futex:
		return (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET ? WAKE_EXACT : WAKE_NEVER;
	case SYS_recvfrom:
		return rank_receive((a[3] & MSG_WAITALL) != 0, WAKE_EXACT);
	case SYS_recvmsg:
		return rank_receive((a[2] & MSG_WAITALL) != 0, WAKE_EXACT);
	case SYS_recvmmsg:
		return rank_receive((uint32_t)a[2] > 1 && (a[3] & MSG_WAITFORONE) == 0, WAKE_ANEW);
	case SYS_io_getevents:
		return rank_receive((int64_t)a[1] > 1, WAKE_ANEW);
	/* Also one that first submits: it returns how many it has. */
	case SYS_io_uring_enter:
		return rank_receive((uint32_t)a[1] > 0 || (uint32_t)a[2] > 1, WAKE_ANEW);
	case SYS_msgrcv:
	case SYS_mq_timedreceive:
		return WAKE_ANEW;
	default:
		/* rt_sigtimedwait among them: it would take the signal itself. */
		return WAKE_NEVER;
	}
}

/* The same as safe_point_check of the agent. */
static uint64_t check_call(const struct call *call)
{
	const uint64_t parts[] = { call->arguments[0], call->arguments[1], call->arguments[2],
		call->arguments[3], call->instruction, call->stack };
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		hash = (hash ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return hash >> (64 - CHECK_BITS);
}

struct wake_choice wake_choose(const char *status, const char *syscall, int signal_number)
{
	const int filters = wake_filters(status);
	struct wake_choice choice = { .rank = WAKE_NEVER,
		.switches = strtoul(
			process_status_field(status, "voluntary_ctxt_switches"), NULL, 10) };
	struct call call;

	choice.blocks_signal = process_status_has_signal(status, "SigBlk", signal_number);
	if (*process_status_field(status, "State") != 'S' || choice.blocks_signal)
		return choice;
	choice.value =
		WORD |
		(uint64_t)(filters < 0 || filters > FILTERS_UNKNOWN ? FILTERS_UNKNOWN : filters)
			<< FILTERS_SHIFT;
	if (syscall == NULL) {
		choice.rank = WAKE_UNKNOWN;
	} else if (parse_call(syscall, &call)) {
		choice.rank = rank_call(&call);
		if (call.number + 1 < 1 << NUMBER_BITS)
			choice.value |= (uint64_t)(call.number + 1) << NUMBER_SHIFT |
					check_call(&call) << CHECK_SHIFT;
	}
	return choice;
}
