/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subset of HTTP/1.1 (RFC 9112) that heapctl speaks: messages are read as bytes in and events
 * out, and their heads written into a buffer; no I/O. One parser reads one direction of one
 * connection; the agent's reads requests, the client's responses.
 *
 *	while ((event = http_parser_feed(&parser, &data, &size, &body, &err)) != HTTP_MORE) ...
 *
 * Words: the *head* is the first line and the header fields; it is kept in the parser, bounded.
 * The *body* is passed on in the caller's own bytes, piece by piece, never kept. Requests carry a
 * body with Content-Length only; responses also chunked or up to the end of the connection.
 *
 * Takes memory for the head from `memory` only, so it is safe on the resident side. Not for two
 * threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum http_kind {
	HTTP_REQUEST,
	HTTP_RESPONSE,
};

enum http_event {
	HTTP_MORE,   /* all bytes are used up; feed the next ones */
	HTTP_HEAD,   /* the head is complete and readable until http_parser_reset */
	HTTP_BODY,   /* `body` is the next piece of it */
	HTTP_DONE,   /* the message is complete; what is left of the bytes is the next message's */
	HTTP_FAILED, /* malformed or too large: see the error and `status`; stays so */
};

enum http_parser_state {
	HTTP_STATE_HEAD,
	HTTP_STATE_BODY,
	HTTP_STATE_BODY_TO_END,
	HTTP_STATE_CHUNK_LINE,
	HTTP_STATE_CHUNK,
	HTTP_STATE_CHUNK_END,
	HTTP_STATE_TRAILER,
	HTTP_STATE_COMPLETE,
	HTTP_STATE_FAILED,
};

enum {
	HTTP_REQUEST_HEAD_BYTES = 8192,
	HTTP_REQUEST_BODY_BYTES = 4096,
	HTTP_RESPONSE_HEAD_BYTES = 65536,
	HTTP_HEADERS_MAX = 64,
	HTTP_INTERIM_MAX = 8, /* answers such as 100 (Continue) before the real one */
};

/* A piece of a body: borrowed from the bytes fed. */
struct http_body {
	const char *data;
	size_t size;
};

struct http_parser {
	enum http_kind kind;
	/* Set before the first byte of a response to HEAD: it has no body whatever it announces. */
	bool without_body;

	/* The head, after HTTP_HEAD. */
	const char *method; /* request: "GET" */
	char *target;	    /* request: path and query as sent; for http_target_parse */
	int status;	    /* response: 100..999; request: after HTTP_FAILED what to answer */
	const char *reason; /* response */
	bool keep_alive;    /* the connection can carry another message after this one */
	bool has_length;
	uint64_t content_length; /* 0 unless has_length */

	/* Own matters. */
	enum http_parser_state state;
	struct buffer head;
	size_t line_start; /* of the line that is being collected, in `head` */
	uint64_t left;	   /* of the body or the chunk */
	char chunk_line[80];
	size_t chunk_line_size;
	size_t framing_bytes; /* since the last chunk: its line, extensions, the trailer */
	unsigned header_count;
	unsigned interim_count;
	struct {
		uint32_t name;
		uint32_t value;
	} headers[HTTP_HEADERS_MAX]; /* offsets into `head` */
};

void http_parser_init(struct http_parser *parser, enum http_kind kind, const struct memory *memory);
void http_parser_deinit(struct http_parser *parser);

/* Ready for the next message; the memory is kept. */
void http_parser_reset(struct http_parser *parser);

/*
 * Takes bytes from the front of *data (advancing it, and *size down) until there is something to
 * say. ERROR_INPUT for what is malformed, ERROR_MEMORY when the head found no room.
 */
enum http_event http_parser_feed(struct http_parser *parser, const char **data, size_t *size,
	struct http_body *body, struct error *err);

/*
 * The connection ended. HTTP_DONE when that completes the message, HTTP_MORE when no message had
 * begun, HTTP_FAILED in the middle of one.
 */
enum http_event http_parser_end(struct http_parser *parser, struct error *err);

/* A message has begun and is not complete: for time limits. */
bool http_parser_is_inside(const struct http_parser *parser);

/* The first field of that name, any case; NULL when there is none. Until the reset. */
const char *http_parser_header(const struct http_parser *parser, const char *name);

/* Whether a comma-separated list such as Connection's has that word, any case. */
bool http_list_has(const char *list, const char *word);

/*
 * Writes the heads of requests and responses into a buffer; the caller sends it and then the
 * body. A field's value that holds control characters is written with spaces in their places, so
 * that nothing from outside can add a line.
 */
struct http_field {
	const char *name;
	const char *value;
};

/* "OK", "Not Found"; "Unknown" for a number that has no name here. */
const char *http_reason(int status);

/*
 * A whole request head: `target` must be encoded already (http_append_encoded). `fields` ends
 * with a NULL name and may be NULL. Content-Length is written for POST and PUT, or with a body.
 */
void http_write_request_head(struct buffer *out, const char *method, const char *target,
	const char *host, const struct http_field *fields, uint64_t body_bytes);

/*
 * A whole response head with Date left out, Content-Length, and `Connection: close` unless
 * `keep_alive`.
 */
void http_write_response_head(struct buffer *out, int status, const struct http_field *fields,
	uint64_t body_bytes, bool keep_alive);
