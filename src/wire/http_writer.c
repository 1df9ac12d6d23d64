/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http_writer.h"

#include <inttypes.h>
#include <string.h>

const char *http_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 204, "No Content" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 413, "Content Too Large" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
		if (reasons[i].status == status)
			return reasons[i].reason;
	}
	return "Unknown";
}

static void write_field(struct buffer *out, const char *name, const char *value)
{
	buffer_append_string(out, name);
	buffer_append_string(out, ": ");
	for (const char *c = value; *c != '\0'; c++)
		buffer_append_char(out, (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c);
	buffer_append_string(out, "\r\n");
}

static void write_fields(struct buffer *out, const struct http_field *fields)
{
	for (; fields != NULL && fields->name != NULL; fields++)
		write_field(out, fields->name, fields->value);
}

void http_write_request_head(struct buffer *out, const char *method, const char *target,
	const char *host, const struct http_field *fields, uint64_t body_bytes)
{
	buffer_printf(out, "%s %s HTTP/1.1\r\n", method, target);
	write_field(out, "Host", host);
	write_fields(out, fields);
	if (body_bytes > 0 || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0)
		buffer_printf(out, "Content-Length: %" PRIu64 "\r\n", body_bytes);
	buffer_append_string(out, "\r\n");
}

void http_write_response_head(struct buffer *out, int status, const struct http_field *fields,
	uint64_t body_bytes, bool keep_alive)
{
	buffer_printf(out, "HTTP/1.1 %d %s\r\n", status, http_reason(status));
	write_fields(out, fields);
	buffer_printf(out, "Content-Length: %" PRIu64 "\r\n", body_bytes);
	if (!keep_alive)
		buffer_append_string(out, "Connection: close\r\n");
	buffer_append_string(out, "\r\n");
}
