/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the bytes of a request to its answer, without any socket: takes the target apart, finds
 * the route, checks token, host, site and parameters, and calls the handler.
 */
#pragma once

#include "gateway/gateway.h"
#include "gateway/request_policy.h"
#include "gateway/request.h"

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
	bool is_private; /* came in by a unix socket: no browser, no token */
	int client_fd;
};

/* How many bytes of body the request may have. */
size_t dispatch_body_limit(const struct route *routes, const char *method, const char *target);

void dispatch(struct gateway *gateway, const struct incoming *incoming, struct reply *reply);
