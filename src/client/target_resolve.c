/* SPDX-License-Identifier: Apache-2.0 */
#include "client/target_resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "client/target_agent.h"

enum {
	PROBE_ANSWER_BYTES = 1024 * 1024,
	NAMES_SHOWN = 6,
};

static bool resolve_pid(pid_t pid, struct target *target, struct error *err)
{
	struct process process;

	return process_read(pid, &process, err) && target_reach(&process, target, err);
}

/* The processes that have the name: those with an agent, and one without. */
struct name_search {
	const char *name;
	struct listening_tables *tables;
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
	bool is_there = target_find(search->tables, &process, &target, &err);
	if (!is_there && target_may_wake(&process)) {
		target_of_sleeper(&process, &target);
		is_there = true;
		if (process_age_ms(pid) < TARGET_YOUNG_MS) {
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

static bool resolve_name(const char *name, uid_t owner, struct target *target, struct error *err)
{
	CLEANUP(free_cleanup) pid_t *pids = NULL;
	CLEANUP(free_cleanup) struct name_search *search = xcalloc(1, sizeof *search);
	CLEANUP(listening_tables_cleanup)
	struct listening_tables *tables = listening_tables_create();
	size_t count;

	search->name = name;
	search->tables = tables;
	search->owner = owner;
	if (!process_list(&pids, &count, err))
		return false;
	for (size_t i = 0; i < count; i++)
		examine(pids[i], search);
	if (search->reachable == 0 && search->children == 1)
		return target_reach(&search->first_child, target, err);
	if (search->reachable == 1 && search->first.socket_path[0] == '\0')
		return target_reach(&search->first.process, target, err);
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
		return target_reach(&search->without_agent, target, err);
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
	return process_refuse_name(name, owner, "heapctl ps lists the targets", err);
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
	stream_init(&stream, TARGET_PROBE_MS, TARGET_PROBE_MS);
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
		target_set_gateway_names(target);
		snprintf(target->label, sizeof target->label, "%s%.100s", TARGET_SOCKET_SCHEME,
			path);
		snprintf(target->socket_path, sizeof target->socket_path, "%s", path);
	}
	return true;
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
		return resolve_socket(text + strlen(TARGET_SOCKET_SCHEME), target, err);
	if (strchr(text, '/') != NULL)
		return resolve_socket(text, target, err);
	if (target_tree_detect(text))
		return target_tree_refuse(text, err);
	/* A process may call itself NAME@USER as well; it does not become that user's by it. */
	if (user_name_split(text, name, sizeof name, &owner))
		return resolve_name(name, owner, target, err);
	return resolve_name(text, owner, target, err);
}
