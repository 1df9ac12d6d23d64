/* SPDX-License-Identifier: Apache-2.0 */
#include "client/target.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "client/attach_check.h"
#include "client/discovery.h"
#include "client/process.h"
#include "client/wake.h"

enum {
	PROBE_ANSWER_BYTES = 1024 * 1024,
	PROBE_IDLE_MS = 2000,
	/* A young process: its agent makes its socket 0.1 s and 1 s after its start. */
	YOUNG_MS = 1200,
	/* One with the code of an agent may have executed its program a moment ago. */
	EXECUTED_MS = 300,
	NAMES_SHOWN = 6,
};

/* The process that called listen() on the other end, as the kernel noted. */
static bool read_peer(const struct stream *stream, struct ucred *peer, struct error *err)
{
	socklen_t size = sizeof *peer;

	if (getsockopt(stream->fd, SOL_SOCKET, SO_PEERCRED, peer, &size) != 0)
		return error_system(err, errno, "%s: reading the user of the socket", stream->peer);
	return true;
}

static bool is_trusted(const struct ucred *peer, const struct process *process, uid_t owner)
{
	if (peer->uid == 0 || peer->uid == geteuid())
		return true;
	if (process->pid != 0)
		return peer->uid == process->uid || peer->uid == process->effective_uid;
	/* Root may use any user's agent, as long as its socket is that user's own. */
	return geteuid() == 0 && peer->uid == owner;
}

static bool check_peer(const struct stream *stream, const char *path, const struct process *process,
	struct error *err)
{
	struct stat status;
	struct ucred peer;

	if (!read_peer(stream, &peer, err))
		return false;
	if (process->pid != 0 && peer.pid != process->pid) {
		error_set(err, ERROR_DENIED, "%s: process %d listens there, not %d", path,
			(int)peer.pid, (int)process->pid);
		return error_hint(err, "two containers share the folder, or another user put it "
				       "there: heapctl ps lists the agents that answer");
	}
	if (lstat(path, &status) != 0)
		return error_system(err, errno, "%s", path);
	if (is_trusted(&peer, process, status.st_uid))
		return true;
	error_set(err, ERROR_DENIED, "%s: the socket belongs to untrusted user %u", path, peer.uid);
	return error_hint(err, "run heapctl as that user to talk to it");
}

static bool connect_socket(const struct target *target, struct stream *stream, struct error *err)
{
	if (stream_connect_unix(stream, target->socket_path, err))
		return check_peer(stream, target->socket_path, &target->process, err);
	/* Its queue is full: it has not taken a connection for long. */
	if (err->errnum == EAGAIN && target->process.pid != 0 &&
		process_explain_silence(&target->process, err))
		error_set(err, ERROR_TIMEOUT, "%s takes no connections: its agent is busy or hangs",
			target->label);
	return false;
}

static void set_names(struct target *target)
{
	const struct process *const process = &target->process;

	snprintf(target->label, sizeof target->label, "%s[%d]", process->name, (int)process->pid);
	snprintf(target->file_stem, sizeof target->file_stem, "%s.%d", process->name,
		(int)process->pid);
	for (char *c = target->file_stem; *c != '\0'; c++) {
		if (*c == '/' || *c == ' ' || (unsigned char)*c < 0x20)
			*c = '_';
	}
	if (target->file_stem[0] == '.' || target->file_stem[0] == '-')
		target->file_stem[0] = '_';
}

/* Whether the right agent answers at the path. */
static bool probe(
	const struct process *process, const char *path, struct target *target, struct error *err)
{
	CLEANUP(stream_close) struct stream stream = { .fd = -1 };

	stream_init(&stream, PROBE_IDLE_MS, PROBE_IDLE_MS);
	*target = (struct target){
		.kind = TARGET_AGENT,
		.process = *process,
		.owner = process->uid,
	};
	snprintf(target->socket_path, sizeof target->socket_path, "%s", path);
	set_names(target);
	return connect_socket(target, &stream, err);
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
	switch (wake_read_state(process)) {
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
		if (discovery_usable_folder(process, folder))
			return error_hint(err,
				"it may be in a sandbox (Landlock) that lets it make no file or "
				"socket in %.100s; heapctl doctor %d explains more",
				folder, (int)process->pid);
		return error_hint(err, "run heapctl doctor %d; its HEAPCTL_DIR may differ",
			(int)process->pid);
	}
	error_set(err, ERROR_NOT_FOUND, "%s[%d] has no agent", process->name, (int)process->pid);
	if (is_only)
		return attach_offer(process, &modules, err);
	return error_hint(err, "%s; heapctl doctor %d explains more", process_agent_hint(&modules),
		(int)process->pid);
}

/*
 * Goes through the candidates; *denied when one of them is there but refuses, and none answers. A
 * name may be that of another process, which has the same pid in its pid namespace, or
 * another user may have put a socket into one of the folders.
 */
static bool try_candidates(
	const struct process *process, struct target *target, bool *denied, struct error *err)
{
	struct string_pool paths;
	struct target found;
	bool ok = false;

	*denied = false;
	string_pool_init(&paths);
	discovery_candidates(process, &paths);
	for (size_t i = 0; i < paths.count && !ok; i++) {
		struct error why;
		ok = probe(process, paths.strings[i], &found, &why);
		if (!ok && !*denied) {
			*denied = why.kind != ERROR_NOT_FOUND;
			*err = why;
		}
	}
	string_pool_deinit(&paths);
	*denied = *denied && !ok;
	if (ok)
		*target = found;
	return ok;
}

static bool explain_cannot_wake(
	const struct process *process, const struct wake *wake, struct error *err)
{
	enum { SENT_IN_VAIN = 5 };

	if ((wake->all_block && !wake_can_take_signal(process, err)) ||
		!wake_can_open_files(process, err))
		return false;
	if (process_has_bare_root(process))
		return explain_bare_root(process, ERROR_TIMEOUT, err);
	error_set(err, ERROR_TIMEOUT, "%s[%d] does not wake its agent", process->name,
		(int)process->pid);
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
	       check_root(process, err) && wake_can_take_signal(process, err);
}

static int64_t wake_deadline_ms(void)
{
	return clock_monotonic_ms() + WAKE_TIMEOUT_MS;
}

/* Also one that is just making its socket. */
static bool may_wake(const struct process *process)
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
		if (try_candidates(process, target, denied, err))
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

static bool find_agent(const struct process *process, struct target *target, struct error *err)
{
	bool denied;

	if (try_candidates(process, target, &denied, err))
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

	return process_age_ms(process->pid) < YOUNG_MS ||
	       (clock_monotonic_ms() < looked_ms + EXECUTED_MS &&
		       process_read_modules(process->pid, &modules, &ignored) &&
		       modules.agent[0] != '\0');
}

/* The same, and wakes an agent that is there on demand. */
static bool reach_agent(const struct process *process, int64_t deadline_ms, struct target *target,
	struct error *err)
{
	const int64_t looked_ms = clock_monotonic_ms();
	bool denied;

	for (;;) {
		if (try_candidates(process, target, &denied, err))
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

void target_of_sleeper(const struct process *process, struct target *target)
{
	*target =
		(struct target){ .kind = TARGET_AGENT, .process = *process, .owner = process->uid };
	set_names(target);
}

bool target_of_process(pid_t pid, struct target *target, struct error *err)
{
	struct process process;

	return process_read(pid, &process, err) && find_agent(&process, target, err);
}

static bool resolve_pid(pid_t pid, struct target *target, struct error *err)
{
	struct process process;

	return process_read(pid, &process, err) &&
	       reach_agent(&process, wake_deadline_ms(), target, err);
}

/*
 * A socket is named after the inner pid of its process; /proc may have more. Where it does not, the
 * process belongs to the user of the listening socket.
 */
static void learn_process(const struct stream *stream, struct target *target)
{
	struct ucred peer;
	struct error err;

	target->process = (struct process){ .name = "process" };
	target->owner = USER_ANY;
	if (!read_peer(stream, &peer, &err))
		return;
	target->owner = peer.uid;
	if (peer.pid == 0)
		return;
	if (!process_read(peer.pid, &target->process, &err)) {
		target->process = (struct process){ .name = "process", .pid = peer.pid };
	} else if (peer.uid == 0 || peer.uid == target->process.uid ||
		   peer.uid == target->process.effective_uid) {
		target->owner = target->process.uid;
	} else {
		/* The number is another user's process by now: a child kept the socket. */
		target->process = (struct process){ .name = "process" };
	}
}

/* The kind of file (S_IFMT) at the path, links followed; 0 when there is none. */
static mode_t file_kind(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? status.st_mode & S_IFMT : 0;
}

static bool refuse_file(const char *path, struct error *err)
{
	error_set(err, ERROR_USAGE, "%s is not a socket", path);
	return error_hint(
		err, file_kind(path) == S_IFDIR
			     ? "heapctl trend takes a folder"
			     : "heapctl report shows a file; heapctl ps lists the targets");
}

/* A file without a '/' in its name, such as a profile; programs may be started later. */
static bool is_plain_file(const char *name)
{
	struct process process;
	struct error ignored;

	return file_kind(name) == S_IFREG && access(name, X_OK) != 0 &&
	       !process_find(name, &process, &ignored) && ignored.kind == ERROR_NOT_FOUND;
}

bool target_check_path(const char *text, struct error *err)
{
	if (strchr(text, '/') == NULL)
		return !is_plain_file(text) || refuse_file(text, err);
	const mode_t kind = file_kind(text);
	return kind == 0 || kind == S_IFSOCK || refuse_file(text, err);
}

bool target_of_socket(const char *path, struct target *target, struct error *err)
{
	CLEANUP(stream_close) struct stream stream = { .fd = -1 };
	struct target found = { .kind = TARGET_AGENT };

	stream_init(&stream, PROBE_IDLE_MS, PROBE_IDLE_MS);
	if (!stream_connect_unix(&stream, path, err)) {
		if (err->errnum == EAGAIN) {
			error_set(err, ERROR_TIMEOUT, "%s takes no connections", path);
			error_hint(err, "its process hangs or is stopped; "
					"heapctl status PID shows which");
		}
		if (err->errnum == ECONNREFUSED && file_kind(path) != S_IFSOCK)
			return refuse_file(path, err);
		if (err->errnum == ECONNREFUSED) {
			error_set(err, ERROR_NOT_FOUND, "%s: no process listens there any more",
				path);
			error_hint(err, "its process has ended; heapctl ps lists the targets");
		}
		if (err->errnum == ENOENT || err->errnum == ENOTDIR)
			error_hint(err, "heapctl ps lists the targets");
		return false;
	}
	if (!check_peer(&stream, path, &found.process, err))
		return false;
	learn_process(&stream, &found);
	snprintf(found.socket_path, sizeof found.socket_path, "%s", path);
	set_names(&found);
	*target = found;
	return true;
}

/* The processes that have the name: those with an agent, and one without. */
struct name_search {
	const char *name;
	uid_t owner; /* only that user's; USER_ANY for all */
	struct target first;
	size_t reachable;	    /* asleep or not */
	struct process first_child; /* asleep and young: of a server that forks all day */
	size_t children;
	bool has_several_owners;
	char list[200]; /* "4711, 4712" */
	struct process without_agent;
	size_t unreachable;
	size_t without_agents; /* of the unreachable, those that have none */
	char others[200];      /* "4711, 4712": the unreachable */
	struct error why;      /* of the first unreachable one */
};

/* The pid is the `count`th of the list. */
static void append_pid(pid_t pid, size_t count, char list[200])
{
	const size_t size = strlen(list);

	if (count <= NAMES_SHOWN)
		snprintf(list + size, 200 - size, "%s%d", size == 0 ? "" : ", ", (int)pid);
	else if (count == NAMES_SHOWN + 1)
		snprintf(list + size, 200 - size, ", ...");
}

static void examine(pid_t pid, struct name_search *search)
{
	struct process process;
	struct target target;
	struct error err;

	if (pid == getpid() || !process_read(pid, &process, &err) ||
		(search->owner != USER_ANY && process.uid != search->owner) ||
		!process_is_called(&process, search->name))
		return;
	bool is_there = find_agent(&process, &target, &err);
	if (!is_there && may_wake(&process)) {
		target_of_sleeper(&process, &target);
		is_there = true;
		if (process_age_ms(pid) < YOUNG_MS) {
			if (search->children++ == 0)
				search->first_child = process;
			return;
		}
	}
	if (is_there) {
		if (search->reachable == 0)
			search->first = target;
		search->has_several_owners |= search->first.owner != target.owner;
		append_pid(pid, ++search->reachable, search->list);
		return;
	}
	append_pid(pid, ++search->unreachable, search->others);
	search->without_agents += err.kind == ERROR_NOT_FOUND;
	if (search->unreachable == 1) {
		search->without_agent = process;
		search->why = err;
	}
}

static bool refuse_unmatched(const struct name_search *search, struct error *err)
{
	const char *const at = strrchr(search->name, '@');
	char user[USER_NAME_BYTES];

	/* Had there been such a user, the name would end before the '@'. */
	if (search->owner == USER_ANY && at != NULL && at != search->name && at[1] != '\0') {
		error_set(err, ERROR_NOT_FOUND,
			"no process is called '%s', and there is no user '%s'", search->name,
			at + 1);
	} else if (search->owner == USER_ANY) {
		error_set(err, ERROR_NOT_FOUND, "no process is called '%s'", search->name);
	} else {
		user_name_format(search->owner, user);
		error_set(err, ERROR_NOT_FOUND, "no process of user %s is called '%s'", user,
			search->name);
	}
	if (file_kind(search->name) == S_IFREG)
		return error_hint(err, "heapctl report shows the file of that name; heapctl ps "
				       "lists the targets");
	return error_hint(err, "heapctl ps lists the targets");
}

static bool resolve_name(const char *name, uid_t owner, struct target *target, struct error *err)
{
	CLEANUP(free_cleanup) pid_t *pids = NULL;
	CLEANUP(free_cleanup) struct name_search *search = xcalloc(1, sizeof *search);
	size_t count;

	search->name = name;
	search->owner = owner;
	if (!process_list(&pids, &count, err))
		return false;
	for (size_t i = 0; i < count; i++)
		examine(pids[i], search);
	if (search->reachable == 0 && search->children == 1)
		return reach_agent(&search->first_child, wake_deadline_ms(), target, err);
	if (search->reachable == 1 && search->first.socket_path[0] == '\0')
		return reach_agent(&search->first.process, wake_deadline_ms(), target, err);
	if (search->reachable == 1) {
		*target = search->first;
		return true;
	}
	if (search->reachable == 0 && search->children > 1) {
		error_set(err, ERROR_USAGE, "%zu processes are called '%s', all just started",
			search->children, name);
		return error_hint(err, "give the pid of one of them");
	}
	if (search->reachable > 1) {
		error_set(err, ERROR_USAGE, "%zu processes are called '%s': %s", search->reachable,
			name, search->list);
		return error_hint(err,
			"give the pid of one of them%s; heapctl report '%.60s:*' adds them up",
			search->has_several_owners
				? ", or NAME@USER: they belong to different users"
				: "",
			name);
	}
	if (search->unreachable == 1 && search->without_agents == 1)
		return reach_agent(&search->without_agent, wake_deadline_ms(), target, err);
	if (search->unreachable > 1 && search->without_agents == search->unreachable) {
		error_set(err, ERROR_NOT_FOUND,
			"%zu processes are called '%s', and none has an "
			"agent: %s",
			search->unreachable, name, search->others);
		return error_hint(err, "heapctl attach PID loads one while it runs");
	}
	if (search->unreachable > 0) {
		*err = search->why;
		return false;
	}
	return refuse_unmatched(search, err);
}

uid_t target_trusted_owner(const char *name)
{
	CLEANUP(free_cleanup) pid_t *pids = NULL;
	const uid_t own = geteuid();
	struct process process;
	struct error ignored;
	size_t count;

	if (!process_list(&pids, &count, &ignored))
		return USER_ANY;
	for (size_t i = 0; i < count; i++) {
		if (pids[i] != getpid() && process_read(pids[i], &process, &ignored) &&
			process.uid == own && process_is_called(&process, name))
			return own;
	}
	return USER_ANY;
}

static void set_gateway_names(struct target *target)
{
	const char *const name = strrchr(target->url.prefix, '/');

	snprintf(target->label, sizeof target->label, "%.60s:%s%.50s", target->url.host,
		target->url.port, target->url.prefix);
	snprintf(target->file_stem, sizeof target->file_stem, "%.100s",
		name == NULL ? target->url.host : name + 1);
	for (char *c = target->file_stem; *c != '\0'; c++) {
		if (strchr("/ %:", *c) != NULL)
			*c = '_';
	}
	if (target->file_stem[0] == '.' || target->file_stem[0] == '-')
		target->file_stem[0] = '_';
}

static const char socket_scheme[] = "unix:";

bool target_parse_url(const char *url, struct target *target, struct error *err)
{
	struct target found = { .kind = TARGET_GATEWAY };

	if (!gateway_url_parse(url, &found.url, err))
		return false;
	set_gateway_names(&found);
	*target = found;
	return true;
}

/* Agents have no such page. */
static bool is_gateway_socket(const char *path)
{
	const struct http_call call = {
		.method = "GET",
		.target = "/api/v1/targets",
		.host = "localhost",
		.type = "application/json",
		.beginning = "{\"targets\":[",
		.limit = PROBE_ANSWER_BYTES,
	};
	CLEANUP(stream_close) struct stream stream = { .fd = -1 };
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	struct error ignored;

	http_answer_init(&answer);
	stream_init(&stream, PROBE_IDLE_MS, PROBE_IDLE_MS);
	return stream_connect_unix(&stream, path, &ignored) &&
	       http_call(&stream, &call, &answer, &ignored) &&
	       (answer.status == 200 || answer.status == 401);
}

/* A gateway's process is not the target: what answers there is the gateway's first target. */
static bool resolve_socket(const char *path, struct target *target, struct error *err)
{
	if (!target_of_socket(path, target, err))
		return false;
	/* Nobody else is asked: one who is silent would take time. */
	if (strcmp(target->process.name, "heapctl") == 0 && is_gateway_socket(path)) {
		*target = (struct target){ .kind = TARGET_GATEWAY, .url = { .host = "localhost" } };
		set_gateway_names(target);
		snprintf(target->label, sizeof target->label, "%s%.100s", socket_scheme, path);
		snprintf(target->socket_path, sizeof target->socket_path, "%s", path);
	}
	return true;
}

bool socket_address_detect(const char *text)
{
	return strncmp(text, socket_scheme, strlen(socket_scheme)) == 0 &&
	       strchr(text, '/') != NULL;
}

bool target_tree_detect(const char *text)
{
	const size_t size = strlen(text), end = strlen(TARGET_TREE_SUFFIX);

	return size > end && strcmp(text + size - end, TARGET_TREE_SUFFIX) == 0 &&
	       strchr(text, '/') == NULL;
}

bool target_resolve(const char *text, struct target *target, struct error *err)
{
	return target_resolve_of(text, USER_ANY, target, err);
}

bool target_resolve_of(const char *text, uid_t owner, struct target *target, struct error *err)
{
	char name[256];
	pid_t pid = 0;

	if (gateway_url_detect(text))
		return target_parse_url(text, target, err);
	if (!process_parse_pid(text, &pid, err))
		return false;
	if (pid != 0)
		return resolve_pid(pid, target, err);
	if (socket_address_detect(text))
		return resolve_socket(text + strlen(socket_scheme), target, err);
	if (strchr(text, '/') != NULL)
		return resolve_socket(text, target, err);
	if (target_tree_detect(text)) {
		error_set(err, ERROR_USAGE, "%s means several processes", text);
		return error_hint(err, "heapctl report and heapctl dump take it; here, give the "
				       "pid of one of them");
	}
	/* A process may call itself NAME@USER as well; it does not become that user's by it. */
	if (user_name_split(text, name, sizeof name, &owner))
		return resolve_name(name, owner, target, err);
	return resolve_name(text, owner, target, err);
}

static bool connect_gateway(const struct target *target, struct stream *stream, struct error *err)
{
	if (target->socket_path[0] != '\0')
		return connect_socket(target, stream, err);
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

	if (!is_asleep && connect_socket(target, stream, err))
		return true;
	if (!is_asleep && (err->kind != ERROR_NOT_FOUND || target->process.pid == 0 ||
				  !may_wake(&target->process)))
		return false;
	woken = xcalloc(1, sizeof *woken);
	const int64_t wake_ms = wake_deadline_ms();
	return reach_agent(&target->process,
		       wake_ms < stream->deadline_ms ? wake_ms : stream->deadline_ms, woken, err) &&
	       connect_socket(woken, stream, err);
}

bool target_connect(const struct target *target, struct stream *stream, struct error *err)
{
	return target->kind == TARGET_AGENT ? connect_or_wake(target, stream, err)
					    : connect_gateway(target, stream, err);
}
