/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request as a handler sees it, and the answer that it gives: no library, no socket.
 *
 * The path was matched and the parameters were checked against the table of routes before a
 * handler runs, so a handler gets values by name and in their type.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json_writer.h"
#include "gateway/result_cache.h"
#include "gateway/route.h"

enum {
	REQUEST_PARAMETERS_MAX = 16,
	REPLY_HEADERS_MAX = 8,
};

struct request_value {
	const char *text; /* NULL when it was not given */
	int64_t number;	  /* of numbers; of durations in milliseconds; of choices the position */
};

struct request {
	const struct route *route;
	unsigned method;
	const char *target_name; /* of /targets/NAME/...; NULL at the root */
	struct request_value values[REQUEST_PARAMETERS_MAX]; /* as in route->parameters */
	const char *body;
	size_t body_size;
	const char *accept;	   /* the header; "" without one */
	const char *if_none_match; /* the same */
	int client_fd;		   /* to notice that the client left; -1: none */
};

/* The value of a parameter of the route; NULL when it was not given. */
const char *request_text(const struct request *request, const char *name);

/* Its number; `otherwise` when it was not given. */
int64_t request_number(const struct request *request, const char *name, int64_t otherwise);

struct reply_header {
	const char *name; /* a constant text */
	char *value;
};

struct reply {
	int status;
	const char *media_type; /* a constant text */
	struct blob *body;	/* NULL until one of the functions below was called */
	struct reply_header headers[REPLY_HEADERS_MAX];
	unsigned header_count;
	const char *policy; /* Content-Security-Policy; NULL for the strictest */
	bool may_be_cached; /* by the browser, after asking again */
};

void reply_init(struct reply *reply);
void reply_deinit(struct reply *reply);

/* Each replaces what the reply had. */
void reply_text(struct reply *reply, int status, const char *format, ...) PRINTF_FORMAT(3, 4);
void reply_buffer(struct reply *reply, int status, const char *media_type, struct buffer *body);
void reply_blob(struct reply *reply, int status, const char *media_type, struct blob *body);

/* Adds a header; those beyond REPLY_HEADERS_MAX are dropped. */
void reply_header(struct reply *reply, const char *name, const char *format, ...)
	PRINTF_FORMAT(3, 4);

/* Makes browsers save the answer under that name. */
void reply_attachment(struct reply *reply, const char *format, ...) PRINTF_FORMAT(2, 3);

/* The member "error" of an object: {"code": ..., "message": ..., "hint": ...}. */
void reply_put_error(struct json_writer *json, const struct error *err);

/* {"error": {...}}, the form of the agent's protocol, with the status that fits the kind. */
void reply_error(struct reply *reply, const struct error *err);

/* "MESSAGE (HINT)" as plain text. */
void reply_error_text(struct reply *reply, int status, const struct error *err);

/* Whether the error is temporary: another request has the descriptors or the memory now. */
bool reply_is_shortage(const struct error *err);

/* The status of a kind of error, as in the agent's protocol; 503 for a shortage. */
int reply_status_of(const struct error *err);

/* Replies with the error in the form that clients of the route expect. */
void reply_failure(const struct request *request, const struct error *err, struct reply *reply);
