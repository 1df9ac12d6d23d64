/* SPDX-License-Identifier: Apache-2.0 */
#include "client/http_client.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"

enum { ERROR_BODY_BYTES = 64 * 1024 };

void http_answer_init(struct http_answer *answer)
{
	*answer = (struct http_answer){ 0 };
	buffer_init(&answer->body, &memory_or_exit);
	http_parser_init(&answer->parser, HTTP_RESPONSE, &memory_or_exit);
}

void http_answer_deinit(struct http_answer *answer)
{
	http_parser_deinit(&answer->parser);
	buffer_deinit(&answer->body);
}

const char *http_answer_field(const struct http_answer *answer, const char *name)
{
	return http_parser_header(&answer->parser, name);
}

static bool send_call(struct stream *stream, const struct http_call *call, struct error *err)
{
	struct buffer head;

	buffer_init(&head, &memory_or_exit);
	http_write_request_head(&head, call->method, call->target, call->host, call->fields,
		call->body == NULL ? 0 : call->body_size);
	bool ok = stream_write(stream, head.data, head.size, err);
	buffer_deinit(&head);
	if (ok && call->body != NULL)
		ok = stream_write(stream, call->body, call->body_size, err);
	return ok;
}

static bool take_body(const struct http_call *call, struct http_answer *answer,
	const struct http_body *piece, struct error *err)
{
	const bool is_error = answer->status >= 400;
	const uint64_t limit = is_error ? ERROR_BODY_BYTES : call->limit;

	answer->body_bytes += piece->size;
	if (answer->body_bytes > limit)
		return error_set(err, ERROR_INPUT, "the answer has more than %llu bytes",
			(unsigned long long)limit);
	if (call->out_name != NULL && !is_error) {
		answer->output_failed =
			!file_write_fd(call->out_fd, call->out_name, piece->data, piece->size, err);
		return !answer->output_failed;
	}
	buffer_append(&answer->body, piece->data, piece->size);
	return true;
}

/* Feeds bytes; *done when the answer is complete. */
static bool take_bytes(const struct http_call *call, struct http_answer *answer, const char *data,
	size_t size, bool *done, struct error *err)
{
	struct http_body piece;

	for (;;) {
		switch (http_parser_feed(&answer->parser, &data, &size, &piece, err)) {
		case HTTP_MORE:
			return true;
		case HTTP_HEAD:
			answer->status = answer->parser.status;
			break;
		case HTTP_BODY:
			if (!take_body(call, answer, &piece, err))
				return false;
			break;
		case HTTP_DONE:
			*done = true;
			return true;
		case HTTP_FAILED:
			return error_prefix(err, "the answer");
		}
	}
}

static bool take_end(struct http_answer *answer, struct error *err)
{
	switch (http_parser_end(&answer->parser, err)) {
	case HTTP_DONE:
		return true;
	case HTTP_FAILED:
		return error_set(
			err, ERROR_INPUT, "the connection broke in the middle of the answer");
	case HTTP_MORE:
	case HTTP_HEAD:
	case HTTP_BODY:
		break;
	}
	return error_set(err, ERROR_INPUT, "the connection was closed without an answer");
}

bool http_call(struct stream *stream, const struct http_call *call, struct http_answer *answer,
	struct error *err)
{
	char bytes[65536];
	bool done = false;

	answer->parser.without_body = strcmp(call->method, "HEAD") == 0;
	/* A server that refuses closes without reading everything; its answer is there already. */
	if (!send_call(stream, call, err) && err->errnum != EPIPE)
		return false;
	while (!done) {
		size_t got;
		if (!stream_read(stream, bytes, sizeof bytes, &got, err))
			return false;
		if (got == 0)
			return take_end(answer, err) || error_prefix(err, "%s", stream->peer);
		/* What is wrong with the output says its name already. */
		if (!take_bytes(call, answer, bytes, got, &done, err))
			return !answer->output_failed && error_prefix(err, "%s", stream->peer);
	}
	return true;
}
