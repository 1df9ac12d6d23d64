/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's clients: accepts them from a listener and serves each without blocking, so that none
 * delays another. The owner polls:
 *
 *	count = server_poll_list(&server, fds);
 *	poll(fds, count, server_wait_ms(&server, now_ms));
 *	server_step(&server, fds, count, clock_monotonic_ms());
 *
 * One thread at a time.
 */
#pragma once

#include <poll.h>

#include "agent/connection.h"
#include "agent/listener.h"

enum {
	SERVER_CONNECTIONS_MAX = 8,
	SERVER_POLL_MAX = SERVER_CONNECTIONS_MAX + 1,
};

struct agent_server {
	struct agent_listener *listener;
	const struct memory *memory;
	struct connection_handler handler;
	struct connection *connections; /* SERVER_CONNECTIONS_MAX; NULL until the first client */
	size_t count;
	char *block;		 /* scratch, with the connections */
	int64_t accept_after_ms; /* no client is accepted before: descriptors had run out */
};

void server_init(struct agent_server *server, struct agent_listener *listener,
	const struct memory *memory, const struct connection_handler *handler);
void server_deinit(struct agent_server *server);

/* Fills `fds`, room for SERVER_POLL_MAX; the number filled. */
size_t server_poll_list(const struct agent_server *server, int64_t now_ms, struct pollfd *fds);

/* Milliseconds until the next time limit; -1: there is none. */
int64_t server_wait_ms(const struct agent_server *server, int64_t now_ms);

/* Handles what poll found, and time limits. False when the listener turned out not to be ours. */
MUST_CHECK bool server_step(
	struct agent_server *server, const struct pollfd *fds, size_t count, int64_t now_ms);
