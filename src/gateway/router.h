/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the bytes of a request to its answer, without any socket: takes the target apart, finds the
 * route, checks token, host, site and parameters, and calls the handler. `routes` ends with a NULL
 * pattern.
 */
#pragma once

#include "base/error.h"
#include "gateway/gateway.h"
#include "gateway/request.h"
#include "gateway/request_policy.h"

struct incoming {
	const char *method;
	const char *target;	   /* path and query as sent */
	const char *protocol_peer; /* the client, for the log: "127.0.0.1", "local" */
	struct request_policy_headers policy;
	const char *accept;	   /* NULL without one */
	const char *content_type;  /* NULL without one */
	const char *if_none_match; /* NULL without one */
	const char *body;
	size_t body_size;
	bool body_too_large;
	struct blob *upload; /* instead of a body; NULL without one */
	bool is_private;     /* came in by a unix socket: no browser, no token */
	int client_fd;
};

/* How many bytes of body the request may have. */
size_t router_body_limit(const struct route *routes, const char *method, const char *target);

/*
 * How large a body that becomes a file may be; 0 where the route takes none. It is for clients
 * that router_admits.
 */
uint64_t router_upload_limit(const struct route *routes, const char *method, const char *target);

/* Whether the request may be made at all, before its body is there; if not, the reply says why. */
bool router_admits(struct gateway *gateway, const struct incoming *incoming, struct reply *reply);

void router_answer(struct gateway *gateway, const struct incoming *incoming, struct reply *reply);

struct http_target;

/*
 * Finds the route of a decoded path and fills the request's route, target name and the parameters
 * in the path. Writes NULs into `path`, which the request then points into. ERROR_NOT_FOUND when
 * there is none; ERROR_USAGE with `*allowed` set to METHOD_ bits when it has another method.
 */
MUST_CHECK bool router_match(const struct route *routes, char *path, struct request *request,
	unsigned *allowed, struct error *err);

/* Checks the query against the route's parameters and fills the request's values. */
MUST_CHECK bool router_check(
	const struct http_target *target, struct request *request, struct error *err);

/* Whether this request changes something. */
bool router_is_change(const struct request *request);
