/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that a server serves over HTTP, at the URLs of gperftools and of Go:
 *
 *	http://host:port/pprof/heap		(growth, profile, contention, ... too)
 *	https://host:port/debug/pprof/allocs
 *
 * Names come from the server as well, from pprof/symbol beside the profile, where the server has
 * that page and the profile has no names.
 */
#pragma once

#include <stdbool.h>

#include "client/target.h"
#include "profile/profile.h"

struct server_url {
	struct target target; /* without a prefix */
	char path[1024];      /* of the profile, query included */
	char base[512];	      /* up to "/pprof/...": other pages are beside it */
};

struct server_profile_options {
	const char *page; /* of a URL without a path: "/pprof/heap" */
	long seconds;	  /* of a profile over time */
	bool wants_names; /* false when the program is at hand: its own symbols are used */
	const char *retain, *exclude; /* patterns that a server may apply to names; or NULL */
};

/* Whether a text looks like one: "http://...", "https://..." or "host:port" with a path or not. */
bool server_url_detect(const char *text);

MUST_CHECK bool server_url_parse(
	const char *text, const char *page, struct server_url *url, struct error *err);

/* Fetches the profile; `warn` (may be NULL) is called for a profile that takes long. */
MUST_CHECK bool server_profile_read(const struct server_url *url, const char *name,
	const struct server_profile_options *options,
	void (*warn)(const char *format, ...) PRINTF_FORMAT(1, 2), struct profile **ret,
	struct error *err);
