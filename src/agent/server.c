/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/server.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ACCEPTS_PER_STEP = 16,
	ACCEPT_AGAIN_MS = 1000,
};

void server_init(struct agent_server *server, struct agent_listener *listener,
	const struct memory *memory, const struct connection_handler *handler)
{
	*server = (struct agent_server){
		.listener = listener, .memory = memory, .handler = *handler
	};
}

static const size_t connections_bytes =
	SERVER_CONNECTIONS_MAX * sizeof(struct connection) + CONNECTION_BLOCK_BYTES;

void server_deinit(struct agent_server *server)
{
	for (size_t i = 0; i < server->count; i++)
		connection_deinit(&server->connections[i]);
	if (server->connections != NULL)
		memory_resize(server->memory, server->connections, connections_bytes, 0);
	server->connections = NULL;
	server->count = 0;
}

static bool make_room(struct agent_server *server)
{
	if (server->connections == NULL) {
		server->connections = memory_resize(server->memory, NULL, 0, connections_bytes);
		if (server->connections == NULL)
			return false;
		server->block = (char *)(server->connections + SERVER_CONNECTIONS_MAX);
	}
	return server->count < SERVER_CONNECTIONS_MAX;
}

size_t server_poll_list(const struct agent_server *server, int64_t now_ms, struct pollfd *fds)
{
	size_t count = 0;

	for (; count < server->count; count++)
		fds[count] = (struct pollfd){ .fd = server->connections[count].socket.fd,
			.events = connection_events(&server->connections[count]) };
	if (server->listener->socket.fd >= 0 && now_ms >= server->accept_after_ms)
		fds[count++] =
			(struct pollfd){ .fd = server->listener->socket.fd, .events = POLLIN };
	return count;
}

int64_t server_wait_ms(const struct agent_server *server, int64_t now_ms)
{
	int64_t next = INT64_MAX;

	if (server->accept_after_ms > now_ms)
		next = server->accept_after_ms;
	for (size_t i = 0; i < server->count; i++) {
		if (server->connections[i].deadline_ms < next)
			next = server->connections[i].deadline_ms;
	}
	if (next == INT64_MAX)
		return -1;
	return next > now_ms ? next - now_ms : 0;
}

/* Answers one client too many at once, with as much as its buffer takes. */
static void refuse_client(int fd, const struct memory *memory)
{
	struct response response;
	struct buffer head;
	struct error err;

	response_init(&response, memory);
	buffer_init(&head, memory);
	error_set(&err, ERROR_STATE, "the agent already serves %d clients", SERVER_CONNECTIONS_MAX);
	error_hint(&err, "close one of them, or try again in a minute, when idle ones are closed");
	response_set_status_error(&response, 503, &err);
	response_write_head(&response, false, &head);
	buffer_append(&head, response.body.data, response.body.size);
	if (!head.failed)
		send(fd, head.data, head.size, MSG_DONTWAIT | MSG_NOSIGNAL);
	buffer_deinit(&head);
	response_deinit(&response);
	close(fd);
}

static void admit(struct agent_server *server, int fd, int64_t now_ms)
{
	struct descriptor socket;
	struct error err;

	if (!make_room(server)) {
		refuse_client(fd, server->memory);
		return;
	}
	const bool allowed = listener_peer_is_allowed(fd);
	if (!descriptor_own(fd, &socket, &err))
		return;
	struct connection *const connection = &server->connections[server->count++];
	connection_init(connection, server->memory, &socket, now_ms);
	if (allowed)
		return;
	error_set(&err, ERROR_DENIED, "only root and the user of the server may connect");
	connection_refuse(connection, 403, &err, now_ms);
}

static void end_connection(struct agent_server *server, size_t index)
{
	connection_deinit(&server->connections[index]);
	server->count--;
	if (index != server->count)
		server->connections[index] = server->connections[server->count];
}

/* Handles connection `index`; false when it ended. */
static bool step_connection(struct agent_server *server, size_t index, short events, int64_t now_ms)
{
	struct connection *const connection = &server->connections[index];

	if (events != 0)
		return connection_step(connection, events, &server->handler, server->block, now_ms);
	return now_ms < connection->deadline_ms || connection_expire(connection, now_ms);
}

/* Serves the clients that have sent something or have closed by now. */
static void step_ready(struct agent_server *server, int64_t now_ms)
{
	for (size_t i = server->count; i-- > 0;) {
		struct connection *const connection = &server->connections[i];
		struct pollfd fd = { .fd = connection->socket.fd,
			.events = connection_events(connection) };
		if (poll(&fd, 1, 0) > 0 && !step_connection(server, i, fd.revents, now_ms))
			end_connection(server, i);
	}
}

/* False when the listener is no longer ours. */
static bool accept_clients(struct agent_server *server, int64_t now_ms)
{
	for (int i = 0; i < ACCEPTS_PER_STEP; i++) {
		const int fd = listener_accept(server->listener);
		if (fd >= 0) {
			/* Before one is refused, those that have closed make room. */
			if (server->count == SERVER_CONNECTIONS_MAX)
				step_ready(server, now_ms);
			admit(server, fd, now_ms);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return true;
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM ||
			errno == EPERM) {
			/* The client stays in the queue; trying again at once would spin. */
			server->accept_after_ms = now_ms + ACCEPT_AGAIN_MS;
			return true;
		}
		return false;
	}
	return true;
}

bool server_step(
	struct agent_server *server, const struct pollfd *fds, size_t count, int64_t now_ms)
{
	const size_t connections = server->count;
	bool listening = true;

	/* From the last one down: ending one moves the last into its place. */
	for (size_t i = connections; i-- > 0;) {
		if (!step_connection(server, i, fds[i].revents, now_ms))
			end_connection(server, i);
	}
	if (count > connections && fds[connections].revents != 0)
		listening = accept_clients(server, now_ms);
	return listening;
}
