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

#include "agent/listener.h"
#include "agent/response.h"
#include "agent/routes.h"
#include "wire/http_message.h"

/*
 * One client: bytes are read into a request, the answer is written as fast as the client takes
 * it, and no call blocks. The caller polls for connection_events and calls connection_step.
 */

enum {
	CONNECTION_REQUEST_MS = 5000,	 /* to send a request */
	CONNECTION_ANSWER_MS = 30000,	 /* to take some of an answer */
	CONNECTION_IDLE_MS = 60000,	 /* between requests */
	CONNECTION_TURN_BYTES = 1 << 20, /* sent before the next client is served */
	CONNECTION_BLOCK_BYTES = 32768,
};

/* Answers a request. */
struct connection_handler {
	void (*handle)(
		void *context, const struct agent_request *request, struct response *response);
	void *context;
};

struct connection {
	struct descriptor socket;
	const struct memory *memory;
	struct http_parser parser;
	struct buffer form;   /* the body of the request that is being read */
	struct buffer unread; /* bytes behind the request that is being answered */
	struct buffer head;   /* of the answer */
	struct response response;
	bool answering;
	bool keep_alive;
	bool without_body; /* HEAD */
	uint64_t sent;	   /* of head and body together */
	int64_t deadline_ms;
};

/* Takes the socket over. */
void connection_init(struct connection *connection, const struct memory *memory,
	const struct descriptor *socket, int64_t now_ms);
void connection_deinit(struct connection *connection);

/* What to poll for. */
short connection_events(const struct connection *connection);

/*
 * Reads and writes what it can without waiting; `block` is scratch of CONNECTION_BLOCK_BYTES. False
 * when the connection has ended; then deinit it.
 */
MUST_CHECK bool connection_step(struct connection *connection, short events,
	const struct connection_handler *handler, char *block, int64_t now_ms);

/* Its time limit has passed: answers half a request with 408; false when it ends at once. */
MUST_CHECK bool connection_expire(struct connection *connection, int64_t now_ms);

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

/* Whether a client is being sent an answer. */
bool server_is_answering(const struct agent_server *server);

/* Handles what poll found, and time limits. False when the listener turned out not to be ours. */
MUST_CHECK bool server_step(
	struct agent_server *server, const struct pollfd *fds, size_t count, int64_t now_ms);
