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
	if (answer->budget != NULL)
		byte_budget_give(answer->budget, http_answer_take_budget(answer));
	http_parser_deinit(&answer->parser);
	buffer_deinit(&answer->body);
}

uint64_t http_answer_take_budget(struct http_answer *answer)
{
	const uint64_t bytes = answer->budget_bytes;

	answer->budget_bytes = 0;
	return bytes;
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

static uint64_t limit_of(const struct http_call *call, const struct http_answer *answer)
{
	return answer->status >= 400 && call->limit > ERROR_BODY_BYTES ? ERROR_BODY_BYTES
								       : call->limit;
}

static bool refuse_length(uint64_t limit, struct error *err)
{
	return error_set(
		err, ERROR_INPUT, "the answer has more than %llu bytes", (unsigned long long)limit);
}

/* What is announced to be too long is not read. */
static bool check_length(
	const struct http_call *call, const struct http_answer *answer, struct error *err)
{
	const uint64_t limit = limit_of(call, answer);

	return !answer->parser.has_length || answer->parser.content_length <= limit ||
	       refuse_length(limit, err);
}

static bool take_budget(
	const struct http_call *call, struct http_answer *answer, size_t size, struct error *err)
{
	if (call->budget == NULL)
		return true;
	answer->budget = call->budget;
	if (byte_budget_take(call->budget, answer->budget_bytes, size)) {
		answer->budget_bytes += size;
		return true;
	}
	error_set(err, ERROR_TIMEOUT, "no room for the answer: too many large ones are held");
	return error_hint(err, "try again later");
}

static bool take_body(const struct http_call *call, struct http_answer *answer,
	const struct http_body *piece, struct error *err)
{
	const bool is_error = answer->status >= 400;
	const uint64_t limit = limit_of(call, answer);

	answer->body_bytes += piece->size;
	if (answer->body_bytes > limit)
		return refuse_length(limit, err);
	if (!take_budget(call, answer, piece->size, err))
		return false;
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
			if (!check_length(call, answer, err))
				return false;
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
