/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of docs/protocol.md: a request in, a response out. No I/O but the profile's file. */
#pragma once

#include <stdbool.h>

#include "agent/core.h"
#include "agent/response.h"

struct agent_request {
	const char *method; /* "GET" */
	char *target;	    /* path and query as sent; is written into */
	char *form; /* more parameters, "a=1&b=2", from a form's body; NULL; is written into */
};

/* Fills a response that was initialised. Errors are responses too. */
void routes_handle(
	struct core *core, const struct agent_request *request, struct response *response);
