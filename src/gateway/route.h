/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The routes of the gateway as data. Requests are matched and checked against this table, and the
 * OpenAPI document is written from it, so that neither can say what the other does not.
 *
 * Words. A *pattern* is a path whose segments may be `{name}`, which takes any one segment. A
 * route of scope ROUTE_TARGET exists twice: as it stands, for the gateway's own target, and behind
 * /targets/NAME for the target of that name or pid.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gateway/request.h"

struct gateway;
struct http_target;

enum route_scope {
	ROUTE_GLOBAL,
	ROUTE_TARGET,
};

enum parameter_kind {
	PARAMETER_TEXT,
	PARAMETER_NUMBER,   /* an integer from `least` to `most` */
	PARAMETER_DURATION, /* of a run: "30s", "5mins", "600" */
	PARAMETER_CHOICE,   /* one of `choices` */
};

struct parameter {
	const char *name;
	enum parameter_kind kind;
	bool is_in_path;
	bool is_required;
	int64_t least, most;
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
	const char *tag; /* whose users know it: a heading of the document */
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
	bool is_lenient;      /* parameters it does not know are ignored, as the original does */
	bool is_open;	      /* needs no token: the page's own files */
	bool errors_are_text; /* plain text instead of JSON */
	int error_status;     /* every failure has this one; 0: by its kind */
	size_t body_limit;    /* in bytes; 0: small forms only */
	void (*handle)(struct gateway *gateway, const struct request *request, struct reply *reply);
};

/* Ends with a NULL pattern. */
extern const struct route routes[];

/* What any route may answer; ends with status 0. */
extern const struct route_status route_common_statuses[];

/*
 * Finds the route of a decoded path and fills the request's route, target name and the parameters
 * in the path. Writes NULs into `path`, which the request then points into. ERROR_NOT_FOUND when
 * there is none; ERROR_USAGE with `*allowed` set to METHOD_ bits when it has another method.
 */
MUST_CHECK bool route_match(
	char *path, struct request *request, unsigned *allowed, struct error *err);

/* Checks the query against the route's parameters and fills the request's values. */
MUST_CHECK bool route_check(
	const struct http_target *target, struct request *request, struct error *err);

/* Whether this request changes something. */
bool route_is_change(const struct request *request);

/* Answers with the error in the way that the route's users expect. */
void route_reply_error(const struct request *request, const struct error *err, struct reply *reply);
