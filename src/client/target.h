/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TARGET, as people type it, and the way there: a pid, the name of a process, that name of one user
 * (NAME@USER), the path of an agent's socket, or the URL of a gateway (http://host:port,
 * http://host:port/targets/NAME).
 *
 * The name of a socket proves nothing: before a byte is sent, the kernel is asked which process
 * listens there. It must be the process that was meant, and belong to us, to root, or
 * to the owner of that process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/user_name.h"
#include "client/http_client.h"
#include "client/process.h"
#include "client/stream.h"

enum target_kind {
	TARGET_AGENT,
	TARGET_GATEWAY,
};

struct target {
	enum target_kind kind;
	char label[128];	/* for messages: "redis-server[4711]", "host:7070/targets/db" */
	char file_stem[128];	/* for file names: "redis-server.4711" */
	struct process process; /* of an agent; pid 0 when the kernel cannot say: other namespace */
	uid_t owner;		/* of an agent: the user whose program it is in */
	/* Of an agent ("": on demand, asleep), or of a gateway that listens there. */
	char socket_path[4096];
	struct gateway_url url; /* of a gateway */
	/* Calls to it fail with ERROR_TIMEOUT as soon as this is readable. Borrowed; NULL: none. */
	const int *cancel_fd;
};

/*
 * Whether the text may become a target later: false (ERROR_USAGE) if it is the path of something
 * that is no socket.
 */
MUST_CHECK bool target_check_path(const char *text, struct error *err);

/* TARGET:*, which means several processes: see client/target_tree.h. */
#define TARGET_TREE_SUFFIX ":*"
bool target_tree_detect(const char *text);

/*
 * Finds the target and checks that its agent listens there. ERROR_NOT_FOUND when there is none
 * or it has no agent, ERROR_USAGE when the name is ambiguous, ERROR_DENIED. Wakes an agent that is
 * there on demand.
 */
MUST_CHECK bool target_resolve(const char *text, struct target *target, struct error *err);

/*
 * The same; of the processes that have the name, those of that user alone (base/user_name.h).
 * NAME@USER says so in the text, which then counts. Other operands are accepted from any owner.
 */
MUST_CHECK bool target_resolve_of(
	const char *text, uid_t owner, struct target *target, struct error *err);

/*
 * The caller's own user where a process of that user is called so, whether it can be reached or
 * not: what follows a name from now on must not begin with another user's process. Else USER_ANY.
 */
uid_t target_trusted_owner(const char *name);

/* The agent of a process that is known by its pid. Lets one on demand sleep. */
MUST_CHECK bool target_of_process(pid_t pid, struct target *target, struct error *err);

/*
 * Whether a command can wake the agent on demand of this process now. ERROR_STATE where its limits,
 * its root or its signals prevent that, ERROR_TIMEOUT where it is stopped.
 */
MUST_CHECK bool target_check_sleeper(const struct process *process, struct error *err);

/* An agent on demand that is asleep: target_connect wakes it. */
void target_of_sleeper(const struct process *process, struct target *target);

/* Whether it is "unix:PATH", as listeners print their address. */
bool socket_address_detect(const char *text);

/* The agent behind a socket. */
MUST_CHECK bool target_of_socket(const char *path, struct target *target, struct error *err);

/* Takes a gateway's URL apart. ERROR_USAGE when it is not one. */
MUST_CHECK bool target_parse_url(const char *url, struct target *target, struct error *err);

/*
 * Connects (with TLS where the URL says so) and checks which process answers. Wakes an agent on
 * demand, which may have left since the target was found.
 */
MUST_CHECK bool target_connect(
	const struct target *target, struct stream *stream, struct error *err);
