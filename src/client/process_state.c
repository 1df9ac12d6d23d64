/* SPDX-License-Identifier: Apache-2.0 */
#include "client/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"

enum {
	TRACED_LOOKS = 3,  /* 0.6 s */
	ASLEEP_LOOKS = 15, /* 3 s */
	PATH_BYTES = 96,
	COMM_BYTES = 16,
};

struct thread_state {
	pid_t id;
	char letter; /* of State: in status; 0: not known */
	pid_t tracer;
	long waits; /* how often it has gone to sleep */
};

static long number_of(const char *status, const char *field)
{
	const char *const at = strstr(status, field);

	return at == NULL ? 0 : strtol(at + strlen(field), NULL, 10);
}

static bool read_state(pid_t pid, pid_t thread, struct thread_state *state, struct buffer *text)
{
	if (!file_try_read(text, "/proc/%d/task/%d/status", (int)pid, (int)thread))
		return false;
	const char *const at = strstr(buffer_string(text), "\nState:");
	*state = (struct thread_state){ .id = thread,
		.tracer = (pid_t)number_of(buffer_string(text), "\nTracerPid:"),
		.waits = number_of(buffer_string(text), "\nvoluntary_ctxt_switches:") };
	if (at != NULL)
		state->letter = at[strlen("\nState:") + strspn(at + strlen("\nState:"), " \t")];
	return true;
}

static bool is_agents_thread(pid_t pid, const char *thread, struct buffer *text)
{
	return file_try_read(text, "/proc/%d/task/%s/comm", (int)pid, thread) &&
	       strcmp(buffer_string(text), "heapctl\n") == 0;
}

static bool read_main_state(pid_t pid, struct thread_state *state, struct buffer *text)
{
	return read_state(pid, process_living_thread(pid), state, text);
}

/* Of the agent's thread; false, and *state is left alone, when there is none of its name. */
static bool read_agents_state(pid_t pid, struct thread_state *state, struct buffer *text)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *const tasks = opendir(path);
	bool found = false;

	if (tasks == NULL)
		return false;
	for (struct dirent *entry; !found && (entry = readdir(tasks)) != NULL;) {
		/* A program may be called heapctl. */
		if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == pid ||
			!is_agents_thread(pid, entry->d_name, text))
			continue;
		struct thread_state own;
		found = read_state(pid, atoi(entry->d_name), &own, text);
		if (found)
			*state = own;
	}
	closedir(tasks);
	return found;
}

pid_t process_agent_thread(const struct process *process)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct thread_state state;

	return read_agents_state(process->pid, &state, &text) ? state.id : 0;
}

bool process_is_agent_thread(const struct process *process, pid_t thread)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	char number[16];

	snprintf(number, sizeof number, "%d", (int)thread);
	return thread != 0 && is_agents_thread(process->pid, number, &text);
}

bool process_has_agent_thread(const struct process *process)
{
	return process_agent_thread(process) != 0;
}

/* The first line "N:CONTROLLERS:PATH" of /proc/PID/cgroup that begins with them, or NULL. */
static char *find_group(const char *groups, const char *beginning)
{
	const char *const at = strstr(groups, beginning);

	if (at == NULL)
		return NULL;
	const char *const path = at + strlen(beginning);
	return xasprintf("%.*s", (int)strcspn(path, "\n"), path);
}

static bool file_says(const char *path, const char *words, struct buffer *text)
{
	return file_try_read(text, "%s", path) && strstr(buffer_string(text), words) != NULL;
}

/* Of the second version: alone, or beside the first one. */
static bool is_frozen_group(const char *group, struct buffer *text)
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

	for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
		CLEANUP(free_cleanup)
		char *file = xasprintf("%s%s/cgroup.events", mounts[i], group);
		if (file_says(file, "frozen 1", text))
			return true;
	}
	return false;
}

/* Both versions of control groups report it for each group below a frozen one, too. */
static bool is_frozen(pid_t pid, struct buffer *text)
{
	if (!file_try_read(text, "/proc/%d/cgroup", (int)pid))
		return false;
	CLEANUP(free_cleanup) char *second = find_group(buffer_string(text), "0::");
	CLEANUP(free_cleanup) char *first = find_group(buffer_string(text), ":freezer:");
	if (second != NULL && is_frozen_group(second, text))
		return true;
	if (first == NULL)
		return false;
	CLEANUP(free_cleanup)
	char *file = xasprintf("/sys/fs/cgroup/freezer%s/freezer.state", first);
	return file_says(file, "FROZEN", text);
}

static bool refuse(
	const struct process *process, const char *what, const char *hint, struct error *err)
{
	error_set(err, ERROR_TIMEOUT, "%s[%d] %s", process->name, (int)process->pid, what);
	return error_hint(err, "%s", hint);
}

static bool refuse_stopped(const struct process *process, struct error *err)
{
	char hint[64];

	snprintf(hint, sizeof hint, "let it continue: kill -CONT %d", (int)process->pid);
	return refuse(process, "is stopped (T)", hint, err);
}

static bool refuse_traced(const struct process *process, pid_t tracer, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	char what[128];
	char name[COMM_BYTES + 1] = "";

	if (tracer != 0 && file_try_read(&text, "/proc/%d/comm", (int)tracer))
		snprintf(name, sizeof name, "%.*s", (int)strcspn(buffer_string(&text), "\n"),
			buffer_string(&text));
	if (tracer == 0)
		snprintf(what, sizeof what, "is stopped by a debugger (t)");
	else
		snprintf(what, sizeof what, "is stopped by %s[%d], which traces it (t)",
			name[0] == '\0' ? "process" : name, (int)tracer);
	return refuse(process, what, "let the debugger continue it, or detach", err);
}

/* The state of all threads at once. */
static bool check(const struct process *process, struct thread_state *state, struct buffer *text,
	struct error *err)
{
	/* Without a /proc that shows it, whether it answers will say it. */
	if (!read_main_state(process->pid, state, text))
		return true;
	if (state->letter == 'Z' || state->letter == 'X')
		return error_set(
			err, ERROR_NOT_FOUND, "%s[%d] has ended", process->name, (int)process->pid);
	if (state->letter == 'T')
		return refuse_stopped(process, err);
	if (is_frozen(process->pid, text))
		return refuse(process, "is frozen with its control group",
			"thaw the group (docker unpause, systemctl thaw, cgroup.freeze)", err);
	return true;
}

bool process_has_ended(const struct process *process)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct thread_state state = { 0 };

	if (kill(process->pid, 0) != 0)
		return errno == ESRCH;
	return read_main_state(process->pid, &state, &text) &&
	       (state.letter == 'Z' || state.letter == 'X');
}

bool process_state_check(const struct process *process, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct thread_state state = { 0 };

	return check(process, &state, &text, err);
}

bool process_watch_check(struct process_watch *watch, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct thread_state state = { 0 };

	if (!check(watch->process, &state, &text, err))
		return false;
	if (!read_agents_state(watch->process->pid, &state, &text)) {
		/* The main thread's, then. */
	}
	watch->traced = state.letter == 't' ? watch->traced + 1 : 0;
	/* On a busy machine a healthy thread is found in one such wait after the other. */
	if (state.letter != 'D')
		watch->asleep = 0;
	else
		watch->asleep = state.waits == watch->waits ? watch->asleep + 1 : 1;
	watch->waits = state.waits;
	if (watch->traced >= TRACED_LOOKS)
		return refuse_traced(watch->process, state.tracer, err);
	if (watch->asleep >= ASLEEP_LOOKS)
		return refuse(watch->process, "waits for the kernel (D) and cannot be interrupted",
			"a disk or a network file system that does not answer; "
			"see /proc/PID/stack as root",
			err);
	return true;
}

bool process_explain_silence(struct process_watch *watch, struct error *err)
{
	for (int i = 0; i < ASLEEP_LOOKS; i++) {
		if (!process_watch_check(watch, err))
			return false;
		if (watch->traced == 0 && watch->asleep == 0)
			return true;
		poll(NULL, 0, PROCESS_WATCH_INTERVAL_MS);
	}
	return true;
}
