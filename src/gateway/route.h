/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A route of the gateway as data. Requests are matched and checked against the table of routes
 * (gateway/routes.c), and the OpenAPI document is written from it, so that neither can say what the
 * other does not.
 *
 * Words. A *pattern* is a path whose segments may be `{name}`, which takes any one segment. A
 * route of scope ROUTE_TARGET exists twice: as it stands, for the gateway's own target, and behind
 * /targets/NAME for the target of that name or pid.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	int error_status;  /* of failures other than a wrong request; 0: by their kind */
	size_t body_limit; /* in bytes; 0: small forms only */
	bool (*handle)(struct gateway *gateway, const struct request *request, struct reply *reply,
		struct error *err);
};
