/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/server.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void connection_init(struct connection *connection, const struct memory *memory,
	const struct descriptor *socket, int64_t now_ms)
{
	*connection = (struct connection){
		.socket = *socket, .memory = memory, .deadline_ms = now_ms + CONNECTION_IDLE_MS
	};
	http_parser_init(&connection->parser, HTTP_REQUEST, memory);
	buffer_init(&connection->form, memory);
	buffer_init(&connection->unread, memory);
	buffer_init(&connection->head, memory);
	response_init(&connection->response, memory);
}

void connection_deinit(struct connection *connection)
{
	http_parser_deinit(&connection->parser);
	buffer_deinit(&connection->form);
	buffer_deinit(&connection->unread);
	buffer_deinit(&connection->head);
	response_deinit(&connection->response);
	/* The client sees the end although a child may have inherited the socket. */
	if (descriptor_is_ours(&connection->socket))
		shutdown(connection->socket.fd, SHUT_WR);
	descriptor_close(&connection->socket);
}

short connection_events(const struct connection *connection)
{
	return connection->answering ? POLLOUT : POLLIN;
}

static void begin_answer(struct connection *connection, int64_t now_ms)
{
	buffer_clear(&connection->head);
	response_write_head(&connection->response, connection->keep_alive, &connection->head);
	connection->answering = true;
	connection->sent = 0;
	connection->deadline_ms = now_ms + CONNECTION_ANSWER_MS;
}

/* Answers with this error and ends. */
static void connection_refuse(
	struct connection *connection, int status, const struct error *err, int64_t now_ms)
{
	response_set_status_error(&connection->response, status, err);
	connection->keep_alive = false;
	begin_answer(connection, now_ms);
}

static bool is_form(const struct connection *connection)
{
	static const char form_type[] = "application/x-www-form-urlencoded";
	const char *const type = http_parser_header(&connection->parser, "content-type");

	return type != NULL && strncmp(type, form_type, sizeof form_type - 1) == 0;
}

static void answer_request(
	struct connection *connection, const struct connection_handler *handler, int64_t now_ms)
{
	struct http_parser *const parser = &connection->parser;
	struct error err;

	connection->keep_alive = parser->keep_alive;
	connection->without_body = strcmp(parser->method, "HEAD") == 0;
	buffer_append_char(&connection->form, '\0');
	if (connection->form.failed) {
		error_set(&err, ERROR_MEMORY, "no memory for the request");
		connection_refuse(connection, 500, &err, now_ms);
		return;
	}
	if (connection->form.size > 1 && !is_form(connection)) {
		error_set(&err, ERROR_USAGE, "a request's body must be a form");
		error_hint(&err, "send Content-Type: application/x-www-form-urlencoded, or put the "
				 "parameters into the URL");
		connection_refuse(connection, 400, &err, now_ms);
		return;
	}
	const struct agent_request request = {
		.method = parser->method, .target = parser->target, .form = connection->form.data
	};
	handler->handle(handler->context, &request, &connection->response);
	begin_answer(connection, now_ms);
}

/* Feeds bytes until a request is complete; keeps what lies behind it. */
static void take_bytes(struct connection *connection, const char *data, size_t size,
	const struct connection_handler *handler, int64_t now_ms)
{
	struct http_body body;
	struct error err;
	const bool was_inside = http_parser_is_inside(&connection->parser);

	for (;;) {
		const enum http_event event =
			http_parser_feed(&connection->parser, &data, &size, &body, &err);
		if (event == HTTP_BODY)
			buffer_append(&connection->form, body.data, body.size);
		if (event == HTTP_FAILED) {
			connection_refuse(connection, connection->parser.status, &err, now_ms);
			return;
		}
		if (event == HTTP_DONE) {
			buffer_append(&connection->unread, data, size);
			answer_request(connection, handler, now_ms);
			return;
		}
		if (event == HTTP_MORE)
			break;
	}
	if (!was_inside && http_parser_is_inside(&connection->parser))
		connection->deadline_ms = now_ms + CONNECTION_REQUEST_MS;
}

static bool step_read(struct connection *connection, const struct connection_handler *handler,
	char *block, int64_t now_ms)
{
	const ssize_t got =
		recv(connection->socket.fd, block, CONNECTION_BLOCK_BYTES, MSG_DONTWAIT);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	if (got == 0)
		return false;
	take_bytes(connection, block, (size_t)got, handler, now_ms);
	return true;
}

/* The next bytes to send: of the head, of the body, of the file (through `block`). */
static ssize_t next_bytes(struct connection *connection, char *block, const char **data)
{
	const struct response *const response = &connection->response;
	const uint64_t head_size = connection->head.size;

	if (connection->sent < head_size) {
		*data = connection->head.data + connection->sent;
		return (ssize_t)(head_size - connection->sent);
	}
	const uint64_t offset = connection->sent - head_size;
	uint64_t left = connection->without_body ? 0 : response_size(response) - offset;
	if (left > CONNECTION_BLOCK_BYTES)
		left = CONNECTION_BLOCK_BYTES;
	if (left == 0)
		return 0;
	if (response->file.fd < 0) {
		*data = response->body.data + offset;
		return (ssize_t)left;
	}
	*data = block;
	if (!descriptor_is_ours(&response->file))
		return -1;
	/* A file that has become shorter than promised cannot be sent. */
	const ssize_t got = pread(response->file.fd, block, (size_t)left, (off_t)offset);
	return got > 0 ? got : -1;
}

/* After an answer: the next request, whose bytes may be here already. */
static bool begin_next(
	struct connection *connection, const struct connection_handler *handler, int64_t now_ms)
{
	struct buffer unread = connection->unread;

	if (!connection->keep_alive || unread.failed)
		return false;
	connection->answering = false;
	connection->deadline_ms = now_ms + CONNECTION_IDLE_MS;
	response_deinit(&connection->response);
	response_init(&connection->response, connection->memory);
	http_parser_reset(&connection->parser);
	buffer_clear(&connection->form);
	buffer_init(&connection->unread, connection->memory);
	take_bytes(connection, unread.data, unread.size, handler, now_ms);
	buffer_deinit(&unread);
	return true;
}

static bool step_write(struct connection *connection, const struct connection_handler *handler,
	char *block, int64_t now_ms)
{
	uint64_t turn = 0;

	if (connection->head.failed)
		return false;
	while (turn < CONNECTION_TURN_BYTES) {
		const char *data = NULL;
		const ssize_t size = next_bytes(connection, block, &data);
		if (size < 0)
			return false;
		if (size == 0)
			return begin_next(connection, handler, now_ms);
		const ssize_t sent = send(
			connection->socket.fd, data, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0)
			return errno == EAGAIN || errno == EINTR;
		connection->sent += (uint64_t)sent;
		connection->deadline_ms = now_ms + CONNECTION_ANSWER_MS;
		turn += (uint64_t)sent;
	}
	return true;
}

bool connection_step(struct connection *connection, short events,
	const struct connection_handler *handler, char *block, int64_t now_ms)
{
	/* The number may be a file of the program's by now. */
	if (!descriptor_is_ours(&connection->socket) || (events & POLLNVAL) != 0)
		return false;
	if (!connection->answering && !step_read(connection, handler, block, now_ms))
		return false;
	return !connection->answering || step_write(connection, handler, block, now_ms);
}

bool connection_expire(struct connection *connection, int64_t now_ms)
{
	struct error err;

	if (connection->answering || !http_parser_is_inside(&connection->parser))
		return false;
	error_set(&err, ERROR_USAGE, "the request was not complete after %d s",
		CONNECTION_REQUEST_MS / 1000);
	error_hint(&err, "send it again, with an empty line after its headers and as many bytes "
			 "of body as Content-Length says");
	connection_refuse(connection, 408, &err, now_ms);
	return true;
}

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

bool server_is_answering(const struct agent_server *server)
{
	for (size_t i = 0; i < server->count; i++) {
		if (server->connections[i].answering)
			return true;
	}
	return false;
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
	error_hint(&err, "run heapctl as that user or as root");
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
