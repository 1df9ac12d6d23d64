/* SPDX-License-Identifier: Apache-2.0 */
/* The address of a profile on a server. */
#pragma once

#include "client/agent_client.h"
#include "client/target.h"
#include "client/target_url.h"

struct remote_url {
	struct target target; /* without a prefix */
	char path[1024];      /* of the profile, query included */
	char base[1024];      /* what stands before "/pprof/...": other pages are beside it */
};

/* "host:port" without http:// will do; `service` is what is meant when there is no path. */
MUST_CHECK bool remote_url_parse(
	const char *text, const char *service, struct remote_url *url, struct error *err);

/* Where a redirect leads from there. */
MUST_CHECK bool remote_url_follow(const struct remote_url *from, const char *location,
	struct remote_url *url, struct error *err);
