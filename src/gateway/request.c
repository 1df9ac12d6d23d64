/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_writer.h"
#include "base/utf8.h"
#include "base/xalloc.h"

static const struct request_value *find_value(const struct request *request, const char *name)
{
	const struct parameter *const parameters = request->route->parameters;

	for (size_t i = 0; parameters != NULL && parameters[i].name != NULL; i++) {
		if (strcmp(parameters[i].name, name) == 0)
			return &request->values[i];
	}
	return NULL;
}

const char *request_text(const struct request *request, const char *name)
{
	const struct request_value *const value = find_value(request, name);

	return value == NULL ? NULL : value->text;
}

int64_t request_number(const struct request *request, const char *name, int64_t otherwise)
{
	const struct request_value *const value = find_value(request, name);

	return value == NULL || value->text == NULL ? otherwise : value->number;
}

void reply_init(struct reply *reply)
{
	*reply = (struct reply){ .status = 500, .media_type = "text/plain; charset=utf-8" };
}

void reply_deinit(struct reply *reply)
{
	blob_drop(reply->body);
	for (unsigned i = 0; i < reply->header_count; i++)
		free(reply->headers[i].value);
	*reply = (struct reply){ 0 };
}

void reply_blob(struct reply *reply, int status, const char *media_type, struct blob *body)
{
	blob_drop(reply->body);
	reply->status = status;
	reply->media_type = media_type;
	reply->body = blob_share(body);
}

void reply_buffer(struct reply *reply, int status, const char *media_type, struct buffer *body)
{
	blob_drop(reply->body);
	reply->status = status;
	reply->media_type = media_type;
	reply->body = blob_take(body);
}

void reply_text(struct reply *reply, int status, const char *format, ...)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	va_list arguments;

	va_start(arguments, format);
	buffer_vprintf(&body, format, arguments);
	va_end(arguments);
	reply_buffer(reply, status, "text/plain; charset=utf-8", &body);
}

void reply_header(struct reply *reply, const char *name, const char *format, ...)
{
	CLEANUP(buffer_deinit) struct buffer value = BUFFER_OR_EXIT;
	va_list arguments;

	if (reply->header_count == REPLY_HEADERS_MAX)
		return;
	va_start(arguments, format);
	buffer_vprintf(&value, format, arguments);
	va_end(arguments);
	reply->headers[reply->header_count].name = name;
	reply->headers[reply->header_count].value = xstrdup(buffer_string(&value));
	reply->header_count++;
}

/*
 * Names of processes go into file names: only characters that are safe in shells and headers stay.
 */
static void append_plain(struct buffer *out, const char *text)
{
	for (; *text != '\0'; text++) {
		const char c = *text;
		const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				      (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
		buffer_append_char(out, is_plain ? c : '_');
	}
}

void reply_attachment(struct reply *reply, const char *format, ...)
{
	struct buffer raw, name;
	va_list arguments;

	buffer_init(&raw, &memory_or_exit);
	buffer_init(&name, &memory_or_exit);
	va_start(arguments, format);
	buffer_vprintf(&raw, format, arguments);
	va_end(arguments);
	append_plain(&name, buffer_string(&raw));
	reply_header(reply, "Content-Disposition", "attachment; filename=%s", buffer_string(&name));
	buffer_deinit(&name);
	buffer_deinit(&raw);
}

bool reply_is_shortage(const struct error *err)
{
	return err->kind == ERROR_MEMORY ||
	       (err->kind == ERROR_SYSTEM &&
		       (err->errnum == EMFILE || err->errnum == ENFILE || err->errnum == ENOMEM ||
			       err->errnum == EAGAIN));
}

static const char *hint_of(const struct error *err)
{
	if (err->hint[0] == '\0' && err->kind == ERROR_USAGE)
		return "/openapi.json describes the parameters";
	if (err->hint[0] != '\0' || !reply_is_shortage(err))
		return err->hint;
	return err->errnum == EMFILE
		       ? "ask again in some seconds; where this happens often, start the "
			 "gateway with more descriptors (ulimit -n, LimitNOFILE=)"
		       : "ask again in some seconds";
}

int reply_status_of(const struct error *err)
{
	if (reply_is_shortage(err))
		return 503;
	switch (err->kind) {
	case ERROR_INPUT:
	case ERROR_USAGE:
		return 400;
	case ERROR_DENIED:
		return 403;
	case ERROR_NOT_FOUND:
		return 404;
	case ERROR_STATE:
		return 409;
	case ERROR_UNSUPPORTED:
		return 501;
	case ERROR_TIMEOUT:
		return 503;
	case ERROR_SYSTEM:
	case ERROR_MEMORY:
	case ERROR_NONE:
		break;
	}
	return 500;
}

/* An error may quote an agent, and the client may be a terminal. */
static void put_plain(struct json_writer *json, const char *key, const char *text)
{
	CLEANUP(buffer_deinit) struct buffer plain = BUFFER_OR_EXIT;

	utf8_append_printable(&plain, text, strlen(text));
	json_member_string(json, key, buffer_string(&plain));
}

void reply_put_error(struct json_writer *json, const struct error *err)
{
	json_member_object(json, "error");
	json_member_string(json, "code", error_kind_name(err->kind));
	put_plain(json, "message", err->message);
	put_plain(json, "hint", hint_of(err));
	json_object_end(json);
}

void reply_error(struct reply *reply, const struct error *err)
{
	const int status = reply_status_of(err);
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	struct json_writer json;

	json_init(&json, &body);
	json_object_begin(&json);
	reply_put_error(&json, err);
	json_object_end(&json);
	buffer_append_char(&body, '\n');
	reply_buffer(reply, status, "application/json", &body);
	if (status == 503)
		reply_header(reply, "Retry-After", "2");
}

void reply_error_text(struct reply *reply, int status, const struct error *err)
{
	const char *const hint = hint_of(err);
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	utf8_append_printable(&text, err->message, strlen(err->message));
	if (*hint != '\0') {
		buffer_append_string(&text, " (");
		utf8_append_printable(&text, hint, strlen(hint));
		buffer_append_char(&text, ')');
	}
	reply_text(reply, status, "%s\n", buffer_string(&text));
	if (status == 503)
		reply_header(reply, "Retry-After", "2");
}

void reply_failure(const struct request *request, const struct error *err, struct reply *reply)
{
	const struct route *const route = request->route;

	if (route == NULL || !route->errors_are_text) {
		reply_error(reply, err);
		return;
	}
	const int status = reply_status_of(err);
	/* What the original cannot meet: a wrong parameter, a target that there is not. */
	const bool is_request_wrong =
		err->kind == ERROR_USAGE ||
		(err->kind == ERROR_NOT_FOUND && request->target_name != NULL);
	/* After "the request is wrong" a client does not ask again. */
	const bool is_busy = status == 503 && route->error_status < 500;
	reply_error_text(reply,
		route->error_status == 0 || is_request_wrong || is_busy ? status
									: route->error_status,
		err);
}
