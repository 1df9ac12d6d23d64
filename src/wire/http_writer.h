/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the heads of requests and responses into a buffer; the caller sends it and then the
 * body. A field's value that holds control characters is written with spaces in their places, so
 * that nothing from outside can add a line.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

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
