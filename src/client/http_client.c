/* SPDX-License-Identifier: Apache-2.0 */
#include "client/http_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/xalloc.h"

static const char http[] = "http://";
static const char https[] = "https://";

bool gateway_url_detect(const char *text)
{
	return strncasecmp(text, http, sizeof http - 1) == 0 ||
	       strncasecmp(text, https, sizeof https - 1) == 0;
}

static bool refuse(const char *url, const char *why, struct error *err)
{
	error_set(err, ERROR_USAGE, "%s: %s", url, why);
	return error_hint(err, "a gateway is http://host:port or http://host:port/targets/NAME");
}

/* Splits "host:port" or "[::1]:port". */
static bool parse_authority(const char *url, const char *text, size_t size,
	struct gateway_url *parts, struct error *err)
{
	const bool has_brackets = size > 0 && text[0] == '[';
	const char *const close = has_brackets ? memchr(text, ']', size) : NULL;
	const char *const host = has_brackets ? text + 1 : text;
	const char *const end = text + size;

	if (has_brackets && close == NULL)
		return refuse(url, "the ']' is missing", err);
	const char *const after = has_brackets ? close + 1 : memchr(text, ':', size);
	const char *const host_end = has_brackets ? close : after == NULL ? end : after;
	if (host_end == host || (size_t)(host_end - host) >= sizeof parts->host)
		return refuse(url, "the host is missing", err);
	snprintf(parts->host, sizeof parts->host, "%.*s", (int)(host_end - host), host);

	snprintf(parts->port, sizeof parts->port, "%s", parts->use_tls ? "443" : "80");
	if (after == NULL || after == end)
		return true;
	const size_t digits = (size_t)(end - after - 1);
	if (*after != ':' || digits == 0 || digits > 5 || strspn(after + 1, "0123456789") < digits)
		return refuse(url, "the port is not a number", err);
	snprintf(parts->port, sizeof parts->port, "%.*s", (int)digits, after + 1);
	if (atoi(parts->port) == 0 || atoi(parts->port) > 65535)
		return refuse(url, "the port is not from 1 to 65535", err);
	return true;
}

/* "/" or "/targets/NAME": anything else would be a page, not a target. */
static bool parse_prefix(
	const char *url, const char *path, struct gateway_url *parts, struct error *err)
{
	static const char targets[] = "/targets/";
	size_t size = strlen(path);

	while (size > 0 && path[size - 1] == '/')
		size--;
	if (strcspn(path, "?# ") < strlen(path))
		return refuse(url, "a query is not allowed here", err);
	if (size == 0)
		return true;
	if (size >= sizeof parts->prefix)
		return refuse(url, "it is too long", err);
	if (strncmp(path, targets, sizeof targets - 1) != 0 ||
		memchr(path + sizeof targets - 1, '/', size - (sizeof targets - 1)) != NULL)
		return refuse(url, "this path does not name a target", err);
	snprintf(parts->prefix, sizeof parts->prefix, "%.*s", (int)size, path);
	return true;
}

bool gateway_url_parse(const char *url, struct gateway_url *ret, struct error *err)
{
	struct gateway_url parts = { 0 };

	parts.use_tls = strncasecmp(url, https, sizeof https - 1) == 0;
	const char *const authority = url + (parts.use_tls ? sizeof https : sizeof http) - 1;
	const size_t size = strcspn(authority, "/?#");
	const char *const at = memrchr(authority, '@', size);
	if (at != NULL) {
		/* What is in front of it may be the token, which does not belong into a log. */
		CLEANUP(free_cleanup)
		char *shown = xasprintf("%s...%s", parts.use_tls ? https : http, at);
		return refuse(shown, "a token belongs in HEAPCTL_TOKEN, not in the URL", err);
	}

	if (!parse_authority(url, authority, size, &parts, err) ||
		!parse_prefix(url, authority + size, &parts, err))
		return false;
	*ret = parts;
	return true;
}

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
	struct buffer head = BUFFER_OR_EXIT;

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
	error_set(
		err, ERROR_INPUT, "the answer has more than %llu bytes", (unsigned long long)limit);
	return error_hint(err, "agents send less: check which program answers there");
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
	error_set(
		err, ERROR_TIMEOUT, "no memory for the answer: too many large ones are in memory");
	return error_hint(err, "try again later");
}

/* Whether nothing that follows could make it what was asked for: then no more is read. */
static bool has_wrong_type(const struct http_call *call, const struct http_answer *answer)
{
	const char *const type = http_answer_field(answer, "content-type");

	return call->type != NULL && answer->status < 300 &&
	       (type == NULL || strncmp(type, call->type, strlen(call->type)) != 0);
}

/* The part of the beginning that this piece has. */
static bool has_wrong_beginning(const struct http_call *call, const struct http_answer *answer,
	const struct http_body *piece)
{
	const size_t size = call->beginning == NULL ? 0 : strlen(call->beginning);

	if (answer->status >= 300 || answer->body_bytes >= size)
		return false;
	const size_t left = size - (size_t)answer->body_bytes;
	return memcmp(piece->data, call->beginning + answer->body_bytes,
		       piece->size < left ? piece->size : left) != 0;
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

/* Feeds bytes; *done when the answer is complete, or refused. */
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
			answer->is_refused = has_wrong_type(call, answer);
			*done = answer->is_refused;
			if (*done)
				return true;
			if (!check_length(call, answer, err))
				return false;
			break;
		case HTTP_BODY:
			answer->is_refused = has_wrong_beginning(call, answer, &piece);
			*done = answer->is_refused;
			if (*done)
				return true;
			if (!take_body(call, answer, &piece, err))
				return false;
			break;
		case HTTP_DONE:
			*done = true;
			return true;
		case HTTP_FAILED:
			return false;
		}
	}
}

/* Of a connection that ended before its answer did. */
static bool refuse_end(struct error *err, const char *text, const char *hint)
{
	error_set(err, ERROR_INPUT, "%s", text);
	err->errnum = ECONNABORTED;
	return error_hint(err, "%s", hint);
}

static bool take_end(const struct stream *stream, struct http_answer *answer, struct error *err)
{
	const bool is_agent = stream->peer[0] == '/';

	switch (http_parser_end(&answer->parser, err)) {
	case HTTP_DONE:
		return true;
	case HTTP_FAILED:
		return refuse_end(err, "the connection broke in the middle of the answer",
			is_agent ? "heapctl ps shows whether its process still runs" : "try again");
	case HTTP_MORE:
	case HTTP_HEAD:
	case HTTP_BODY:
		break;
	}
	return refuse_end(err, "the connection was closed without an answer",
		is_agent	      ? "heapctl ps shows whether its process still runs"
		: stream->tls == NULL ? "a server with a certificate does that: try https://"
				      : "try again");
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
			return take_end(stream, answer, err) ||
			       error_prefix(err, "%s", stream->peer);
		/* An error of the output already has its name. */
		if (!take_bytes(call, answer, bytes, got, &done, err))
			return !answer->output_failed && error_prefix(err, "%s", stream->peer);
		if (!done && call->on_progress != NULL)
			call->on_progress(call->progress_context, answer);
	}
	return true;
}
