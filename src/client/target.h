/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command talks to: the agent of a process, behind a socket, or a gateway. What users type
 * becomes one in client/target_resolve.h, and a process in client/target_agent.h.
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

enum { TARGET_PROBE_MS = 2000 }; /* for a connection, or an answer, that says who is there */

/*
 * Whether the text may become a target later: false (ERROR_USAGE) if it is the path of something
 * that is no socket.
 */
MUST_CHECK bool target_check_path(const char *text, struct error *err);

/* "unix:PATH", as listeners print their address. */
#define TARGET_SOCKET_SCHEME "unix:"
bool socket_address_detect(const char *text);

/* The agent behind a socket. */
MUST_CHECK bool target_of_socket(const char *path, struct target *target, struct error *err);

/* Takes a gateway's URL apart. ERROR_USAGE when it is not one. */
MUST_CHECK bool target_parse_url(const char *url, struct target *target, struct error *err);

/* Connects to its socket and checks which process listens there. */
MUST_CHECK bool target_connect_socket(
	const struct target *target, struct stream *stream, struct error *err);

/* Makes label and file_stem of the process, or of the URL. */
void target_set_names(struct target *target);
void target_set_gateway_names(struct target *target);
