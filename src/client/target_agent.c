/* SPDX-License-Identifier: Apache-2.0 */
#include "client/target_agent.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "client/attach_check.h"
#include "client/discovery.h"
#include "client/wake.h"

/* One with the code of an agent may have executed its program a moment ago. */
enum { EXECUTED_MS = 300 };

/* Whether the right agent answers at the path. */
static bool probe(
	const struct process *process, const char *path, struct target *target, struct error *err)
{
	CLEANUP(stream_close) struct stream stream = { .fd = -1 };

	stream_init(&stream, TARGET_PROBE_MS, TARGET_PROBE_MS);
	*target = (struct target){
		.kind = TARGET_AGENT,
		.process = *process,
		.owner = process->uid,
	};
	snprintf(target->socket_path, sizeof target->socket_path, "%s", path);
	target_set_names(target);
	return target_connect_socket(target, &stream, err);
}

static bool try_paths(const struct process *process, const struct string_pool *paths,
	struct target *target, bool *denied, struct error *err)
{
	bool ok = false;

	for (size_t i = 0; i < paths->count && !ok; i++) {
		struct error why;
		ok = probe(process, paths->strings[i], target, &why);
		if (!ok && !*denied) {
			*denied = why.kind != ERROR_NOT_FOUND;
			*err = why;
		}
	}
	return ok;
}

/*
 * Goes through the candidates; *denied when one of them is there but refuses, and none answers. A
 * name may be that of another process, which has the same pid in its pid namespace, or
 * another user may have put a socket into one of the folders.
 */
static bool try_candidates(struct listening_tables *tables, const struct process *process,
	struct target *target, bool *denied, struct error *err)
{
	struct string_pool paths, listening;
	struct target found;

	*denied = false;
	string_pool_init(&paths);
	discovery_candidates(process, &paths);
	bool ok = try_paths(process, &paths, &found, denied, err);
	string_pool_deinit(&paths);
	if (!ok) {
		string_pool_init(&listening);
		discovery_listening(tables, process, &listening);
		ok = try_paths(process, &listening, &found, denied, err);
		string_pool_deinit(&listening);
	}
	*denied = *denied && !ok;
	if (ok)
		*target = found;
	return ok;
}

static bool explain_bare_root(
	const struct process *process, enum error_kind kind, struct error *err)
{
	error_set(err, kind,
		"%s[%d] has changed its root to one without /proc, so its agent cannot be reached",
		process->name, (int)process->pid);
	return error_hint(err, "start it without chroot, mount /proc and make HEAPCTL_DIR in its "
			       "root, or profile the process that forked it");
}

/*
 * What was named may only have started the server: a shell, the init of a container, heapctl run.
 * False where nothing that it started has an agent.
 */
static bool explain_starter(const struct process *process, struct error *err)
{
	CLEANUP(listening_tables_cleanup)
	struct listening_tables *tables = listening_tables_create();
	CLEANUP(free_cleanup) pid_t *pids = NULL;
	struct process child, first;
	struct target target;
	struct error ignored;
	size_t count, found = 0;
	bool denied;

	if (!process_list(&pids, &count, &ignored))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!process_read(pids[i], &child, &ignored) || child.parent != process->pid ||
			!try_candidates(tables, &child, &target, &denied, &ignored))
			continue;
		if (found++ == 0)
			first = child;
	}
	if (found == 1)
		error_hint(err,
			"%s[%d], which it started, has one; heapctl doctor %d explains more",
			first.name, (int)first.pid, (int)process->pid);
	else if (found > 1)
		error_hint(err,
			"%zu processes that it started have one, and heapctl ps lists them; "
			"heapctl doctor %d explains more",
			found, (int)process->pid);
	return found > 0;
}

/*
 * Why no agent answers, and how to change that. `is_only`: not one of many, so that what attaching
 * needs may be read.
 */
static bool explain_no_agent(const struct process *process, bool is_only, struct error *err)
{
	struct process_modules modules;
	char folder[4096];

	if (process_is_kernel_thread(process)) {
		error_set(err, ERROR_NOT_FOUND, "%s[%d] is a thread of the kernel", process->name,
			(int)process->pid);
		return error_hint(err, "heapctl ps --all lists the programs");
	}
	if (!process_read_modules(process->pid, &modules, err))
		return error_prefix(err, "%s", process->name);
	if (!modules.has_mappings)
		return error_set(
			err, ERROR_NOT_FOUND, "%s[%d] has ended", process->name, (int)process->pid);
	switch (wake_state_of(process, &modules)) {
	case WAKE_ASLEEP:
		error_set(err, ERROR_NOT_FOUND, "%s[%d] has an agent on demand, which is asleep",
			process->name, (int)process->pid);
		return error_hint(err, "name it by its pid to wake it");
	case WAKE_SANDBOXED:
		return wake_refuse(process, err);
	case WAKE_AWAKE:
	case WAKE_NO_AGENT:
		break;
	}
	const enum agent_absence absence =
		modules.agent[0] == '\0' ? ABSENCE_UNKNOWN : agent_absence_of(process);
	if (absence != ABSENCE_UNKNOWN) {
		error_set(err, ERROR_NOT_FOUND, "%s[%d] has no agent: %s disables it",
			process->name, (int)process->pid,
			absence == ABSENCE_DISABLED ? "HEAPCTL_DISABLE" : "HEAPCTL_EXE");
		return error_hint(err, "heapctl doctor %d shows the variable", (int)process->pid);
	}
	if (modules.agent[0] != '\0' && wake_explain_child(process, err))
		return false;
	if (modules.agent[0] != '\0' && process_has_bare_root(process))
		return explain_bare_root(process, ERROR_NOT_FOUND, err);
	if (process_has_preloader_alone(&modules)) {
		error_set(err, ERROR_NOT_FOUND,
			"%s[%d] has no agent: it was not loaded, because %.300s needs "
			"libheapctl.so.0 beside itself",
			process->name, (int)process->pid, modules.agent);
		return error_hint(err, "install that, of the same version, readable for that user");
	}
	if (modules.agent[0] != '\0' && !process_has_agent_thread(process)) {
		error_set(err, ERROR_NOT_FOUND, "%s[%d] has no agent any more: the agent has ended",
			process->name, (int)process->pid);
		switch (attach_advise(process, &modules, err)) {
		case ATTACH_AFTER:
			return false;
		case ATTACH_REFUSED:
			return error_hint(err,
				"heapctl doctor %d says why heapctl attach would not start it "
				"again",
				(int)process->pid);
		case ATTACH_NOW:
		case ATTACH_NEVER:
			break;
		}
		return error_hint(err, "heapctl attach %d starts it again", (int)process->pid);
	}
	if (modules.agent[0] != '\0' && !wake_can_open_files(process, err))
		return false;
	if (modules.agent[0] != '\0') {
		error_set(err, ERROR_NOT_FOUND,
			"%s[%d] has the agent loaded, but its socket was not found", process->name,
			(int)process->pid);
		if (discovery_has_lost_own_folder(process))
			return error_hint(err,
				"HEAPCTL_DIR, %.100s, does not exist: an agent that was attached "
				"with it creates it again within ten seconds, if it can",
				getenv("HEAPCTL_DIR"));
		if (process->file_uid != process->effective_uid)
			return error_hint(err,
				"it makes files as uid %u (setfsuid), which may make no socket in "
				"the folder of its agent; heapctl doctor %d explains more",
				(unsigned)process->file_uid, (int)process->pid);
		if (discovery_usable_folder(process, folder))
			return error_hint(err,
				"it may be in a sandbox (Landlock) that lets it make no file or "
				"socket in %.100s; heapctl doctor %d explains more",
				folder, (int)process->pid);
		return error_hint(err, "run heapctl doctor %d; its HEAPCTL_DIR may differ",
			(int)process->pid);
	}
	error_set(err, ERROR_NOT_FOUND, "%s[%d] has no agent", process->name, (int)process->pid);
	if (is_only && explain_starter(process, err))
		return false;
	if (is_only)
		return attach_offer(process, &modules, err);
	return error_hint(err, "%s; heapctl doctor %d explains more", process_agent_hint(&modules),
		(int)process->pid);
}

/* As it is now. */
static bool try_anew(
	const struct process *process, struct target *target, bool *denied, struct error *err)
{
	CLEANUP(listening_tables_cleanup)
	struct listening_tables *tables = listening_tables_create();

	return try_candidates(tables, process, target, denied, err);
}

static bool explain_cannot_wake(
	const struct process *process, const struct wake *wake, struct error *err)
{
	enum { SENT_IN_VAIN = 5 };
	struct process_modules modules;
	struct error ignored;

	if ((wake->all_block && !wake_can_take_signal(process, err)) ||
		!wake_can_open_files(process, err))
		return false;
	if (process_has_bare_root(process))
		return explain_bare_root(process, ERROR_TIMEOUT, err);
	error_set(err, ERROR_TIMEOUT, "%s[%d] does not wake its agent", process->name,
		(int)process->pid);
	if (wake->sent >= SENT_IN_VAIN && process_read_modules(process->pid, &modules, &ignored) &&
		modules.is_go)
		return error_hint(err,
			"Go's runtime takes all signals itself, also signal %d (SIGRTMAX-3), which "
			"wakes the agent: start it without HEAPCTL_THREAD=on-demand",
			SIGRTMAX - 3);
	if (wake->sent >= SENT_IN_VAIN)
		return error_hint(err,
			"it received the waking signal %u times, and no agent started: its control "
			"group has no room for a thread (pids.max), or it restricts its "
			"files (Landlock) and has to be started with HEAPCTL_CHILDREN=thread; "
			"profile its parent",
			wake->sent);
	return error_hint(err,
		"it was too busy to be interrupted, or its only thread waits in sigwait(): try "
		"again, or start it without HEAPCTL_THREAD=on-demand, and its parent with "
		"HEAPCTL_CHILDREN=thread; a child made by clone(2) or one that handles signal %d "
		"(SIGRTMAX-3) has no agent",
		SIGRTMAX - 3);
}

/* Whether its agent could have a socket, and could see what sandbox it is in. */
static bool check_root(const struct process *process, struct error *err)
{
	return !process_has_bare_root(process) || discovery_has_place(process) ||
	       explain_bare_root(process, ERROR_STATE, err);
}

bool target_check_sleeper(const struct process *process, struct error *err)
{
	return process_state_check(process, err) && wake_can_make_thread(process, err) &&
	       check_root(process, err) && wake_can_take_signal(process, err) &&
	       wake_check_files(process, err);
}

static int64_t wake_deadline_ms(void)
{
	return clock_monotonic_ms() + WAKE_TIMEOUT_MS;
}

bool target_may_wake(const struct process *process)
{
	const enum wake_state state = wake_read_state(process);

	return state == WAKE_ASLEEP || state == WAKE_AWAKE;
}

static bool is_worth_asking(const struct wake *wake, int64_t deadline_ms)
{
	const int64_t now_ms = clock_monotonic_ms();

	return now_ms < deadline_ms &&
	       (wake->blocked_since_ms == 0 || now_ms < wake->blocked_since_ms + WAKE_BLOCKED_MS) &&
	       (wake->awake_since_ms == 0 || now_ms < wake->awake_since_ms + WAKE_SOCKET_MS);
}

/*
 * The signal counts only when it finds the program waiting, so it is sent again and again. A
 * process that is stopped or traced would never take it.
 */
static bool wake_agent(const struct process *process, int64_t deadline_ms, struct target *target,
	bool *denied, struct error *err)
{
	struct process_watch watch = { .process = process };
	int64_t watched_ms = clock_monotonic_ms();
	struct wake wake = { 0 };

	do {
		if (!wake_request(process, &wake, err))
			return false;
		poll(NULL, 0, WAKE_INTERVAL_MS);
		if (try_anew(process, target, denied, err))
			return true;
		if (clock_monotonic_ms() - watched_ms < PROCESS_WATCH_INTERVAL_MS)
			continue;
		watched_ms = clock_monotonic_ms();
		if (!*denied && !process_watch_check(&watch, err))
			return false;
	} while (!*denied && is_worth_asking(&wake, deadline_ms));
	if (*denied)
		return false;
	return wake.awake_since_ms == 0 ? explain_cannot_wake(process, &wake, err)
					: explain_no_agent(process, true, err);
}

bool target_find(struct listening_tables *tables, const struct process *process,
	struct target *target, struct error *err)
{
	bool denied;

	if (try_candidates(tables, process, target, &denied, err))
		return true;
	if (denied)
		return false;
	return explain_no_agent(process, false, err);
}

/* Whether the agent of a process without a socket may just be making it. */
static bool may_start(const struct process *process, int64_t looked_ms)
{
	struct process_modules modules;
	struct error ignored;

	return process_age_ms(process->pid) < TARGET_YOUNG_MS ||
	       (clock_monotonic_ms() < looked_ms + EXECUTED_MS &&
		       process_read_modules(process->pid, &modules, &ignored) &&
		       modules.agent[0] != '\0');
}

static bool reach_agent(const struct process *process, int64_t deadline_ms, struct target *target,
	struct error *err)
{
	const int64_t looked_ms = clock_monotonic_ms();
	bool denied;

	for (;;) {
		if (try_anew(process, target, &denied, err))
			return true;
		if (denied)
			return false;
		const enum wake_state state = wake_read_state(process);
		if (state == WAKE_SANDBOXED)
			return wake_refuse(process, err);
		if (state == WAKE_ASLEEP || state == WAKE_AWAKE)
			return process_state_check(process, err) &&
			       (state == WAKE_AWAKE || (wake_can_make_thread(process, err) &&
							       check_root(process, err))) &&
			       wake_agent(process, deadline_ms, target, &denied, err);
		if (!may_start(process, looked_ms))
			return explain_no_agent(process, true, err);
		poll(NULL, 0, WAKE_INTERVAL_MS);
	}
}

bool target_reach(const struct process *process, struct target *target, struct error *err)
{
	return reach_agent(process, wake_deadline_ms(), target, err);
}

void target_of_sleeper(const struct process *process, struct target *target)
{
	*target =
		(struct target){ .kind = TARGET_AGENT, .process = *process, .owner = process->uid };
	target_set_names(target);
}

bool target_of_process(pid_t pid, struct target *target, struct error *err)
{
	CLEANUP(listening_tables_cleanup)
	struct listening_tables *tables = listening_tables_create();
	struct process process;

	return process_read(pid, &process, err) && target_find(tables, &process, target, err);
}

static bool connect_gateway(const struct target *target, struct stream *stream, struct error *err)
{
	if (target->socket_path[0] != '\0')
		return target_connect_socket(target, stream, err);
	if (!stream_connect_tcp(stream, target->url.host, target->url.port, err))
		return false;
	return !target->url.use_tls ||
	       stream_start_tls(stream, target->url.host, getenv("HEAPCTL_CACERT"), err);
}

/* Connects, and wakes an agent on demand that is asleep, or asleep again. */
static bool connect_or_wake(const struct target *target, struct stream *stream, struct error *err)
{
	CLEANUP(free_cleanup) struct target *woken = NULL;
	const bool is_asleep = target->socket_path[0] == '\0';

	if (!is_asleep && target_connect_socket(target, stream, err))
		return true;
	if (!is_asleep && (err->kind != ERROR_NOT_FOUND || target->process.pid == 0 ||
				  !target_may_wake(&target->process)))
		return false;
	woken = xcalloc(1, sizeof *woken);
	const int64_t wake_ms = wake_deadline_ms();
	return reach_agent(&target->process,
		       wake_ms < stream->deadline_ms ? wake_ms : stream->deadline_ms, woken, err) &&
	       target_connect_socket(woken, stream, err);
}

bool target_connect(const struct target *target, struct stream *stream, struct error *err)
{
	return target->kind == TARGET_AGENT ? connect_or_wake(target, stream, err)
					    : connect_gateway(target, stream, err);
}
