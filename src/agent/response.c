/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/response.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json_writer.h"
#include "wire/http_message.h"

/* The stable words of docs/protocol.md. */
static const struct {
	int status;
	const char *code;
} kinds[] = {
	[ERROR_NONE] = { 500, "system" },
	[ERROR_SYSTEM] = { 500, "system" },
	[ERROR_MEMORY] = { 500, "memory" },
	[ERROR_INPUT] = { 400, "usage" },
	[ERROR_USAGE] = { 400, "usage" },
	[ERROR_NOT_FOUND] = { 404, "not-found" },
	[ERROR_STATE] = { 409, "state" },
	[ERROR_UNSUPPORTED] = { 501, "unsupported" },
	[ERROR_DENIED] = { 403, "denied" },
	[ERROR_TIMEOUT] = { 500, "system" },
};

void response_set_status_error(struct response *response, int status, const struct error *err)
{
	struct json_writer json;

	descriptor_close(&response->file);
	response->status = status;
	response->content_type = "application/json";
	response->allow = NULL;
	response->dump_ms = response->time_ms = -1;
	buffer_clear(&response->body);
	json_init(&json, &response->body);
	json_object_begin(&json);
	json_member_object(&json, "error");
	json_member_string(&json, "code", kinds[err->kind].code);
	json_member_string(&json, "message", err->message);
	json_member_string(&json, "hint", err->hint);
	json_object_end(&json);
	json_object_end(&json);
	buffer_append_char(&response->body, '\n');
	if (response->body.failed)
		buffer_clear(&response->body);
}

void response_set_error(struct response *response, const struct error *err)
{
	response_set_status_error(response, kinds[err->kind].status, err);
}

void response_write_head(const struct response *response, bool keep_alive, struct buffer *out)
{
	char dump_ms[24];
	char time_ms[24];
	struct http_field fields[7] = {
		{ "Heapctl-Protocol", "1" },
		{ "Content-Type", response->content_type },
		{ "Cache-Control", "no-store" },
	};
	size_t count = 3;

	if (response->allow != NULL)
		fields[count++] = (struct http_field){ "Allow", response->allow };
	if (response->dump_ms >= 0) {
		snprintf(dump_ms, sizeof dump_ms, "%" PRId64, response->dump_ms);
		fields[count++] = (struct http_field){ "Heapctl-Dump-Ms", dump_ms };
	}
	if (response->time_ms >= 0) {
		snprintf(time_ms, sizeof time_ms, "%" PRId64, response->time_ms);
		fields[count++] = (struct http_field){ "Heapctl-Time-Ms", time_ms };
	}
	http_write_response_head(
		out, response->status, fields, response_size(response), keep_alive);
}
