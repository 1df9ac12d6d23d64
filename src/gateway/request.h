/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The routes' form, a request as a handler sees it, and the answer that it gives: no library, no
 * socket.
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

/*
 * A route of the gateway as data. Requests are matched and checked against the table of routes
 * (gateway/routes.c), and the OpenAPI document is written from it, so that neither can say what the
 * other does not.
 *
 * Words. A *pattern* is a path whose segments may be `{name}`, which takes any one segment. A
 * route of scope ROUTE_TARGET exists twice: as it stands, for the gateway's own target, and behind
 * /targets/NAME for the target of that name or pid.
 */
enum {
	METHOD_GET = 1, /* and HEAD */
	METHOD_POST = 2,
};

struct gateway;
struct reply;
struct request;

enum route_scope {
	ROUTE_GLOBAL,
	ROUTE_TARGET,
};

enum parameter_kind {
	PARAMETER_TEXT,
	PARAMETER_NUMBER,   /* an integer from `min` to `max` */
	PARAMETER_DURATION, /* of a run: "30s", "5mins", "600" */
	PARAMETER_CHOICE,   /* one of `choices` */
};

struct parameter {
	const char *name;
	enum parameter_kind kind;
	bool is_in_path;
	bool is_required;
	int64_t min, max;
	const char *const *choices; /* ends with NULL */
	const char *help;
};

struct route_status {
	int status;
	const char *meaning;
};

struct route {
	unsigned methods; /* METHOD_ bits */
	enum route_scope scope;
	const char *pattern;
	const char *tag; /* of the tool that it comes from: a heading of the document */
	const char *summary;
	const char *media_type; /* of a success */
	const char *schema;	/* of its body, in answer_schemas.json; NULL: bytes */
	const char *(*format_media_type)(const char *format); /* NULL: always the one above */
	const char *other_media_type;			      /* by other parameters; NULL: none */
	const char *other_schema;
	const struct parameter *parameters;  /* ends with a NULL name; NULL for none */
	const struct route_status *statuses; /* beside those that every route may give */
	bool changes;			     /* something in the server, even by GET */
	const char *changes_with;	     /* the same, when this parameter is given */
	bool is_open;			     /* needs no token: the page's own files */
	bool errors_are_text;		     /* plain text instead of JSON */
	int error_status;      /* of failures other than a wrong request; 0: by their kind */
	size_t body_limit;     /* in bytes; 0: small forms only */
	uint64_t upload_limit; /* of a body that becomes a file, of clients with the token; 0: none
				*/
	bool (*handle)(struct gateway *gateway, const struct request *request, struct reply *reply,
		struct error *err);
};

enum {
	REQUEST_PARAMETERS_MAX = 32,
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
	struct blob *upload; /* instead of a body, of a route with an upload_limit; borrowed */
	const char *host;    /* the header; "" without one */
	const char *accept;  /* the same */
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
