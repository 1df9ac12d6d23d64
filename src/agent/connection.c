/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/connection.h"

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

void connection_refuse(
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
	connection_refuse(connection, 408, &err, now_ms);
	return true;
}
