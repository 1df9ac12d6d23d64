/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the route of a request and checks its parameters. `routes` ends with a NULL pattern. */
#pragma once

#include "base/error.h"
#include "gateway/request.h"
#include "gateway/route.h"

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
