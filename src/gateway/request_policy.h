/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which requests are served: by the token, and by the browser's headers about the requesting page.
 *
 * A browser on this machine can reach a loopback address for any page that it shows. Three checks
 * keep those pages out. *Host*: a name that an attacker's DNS made point here (rebinding) is not
 * one of ours. *Sec-Fetch-Site, Origin and Referer*: a request made by another site's page is
 * refused, whether it would change something or only cost something; following a link to a page
 * that only shows something is allowed. Programs send none of these headers and are not affected.
 *
 * Pure functions on header texts; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Header values; NULL where the request has none. */
struct request_policy_headers {
	const char *host;
	const char *origin;
	const char *referer;
	const char *fetch_site;
	const char *fetch_mode;
	const char *authorization;
};

/* ERROR_DENIED for a Host that is neither an IP address nor localhost nor missing. */
MUST_CHECK bool request_policy_check_host(const char *host, struct error *err);

/*
 * ERROR_DENIED for a request that another site's page makes. `is_change`: it would change
 * something, so that not even following a link may do it.
 */
MUST_CHECK bool request_policy_check_site(
	const struct request_policy_headers *headers, bool is_change, struct error *err);

/*
 * Whether the Authorization header carries the token: "Bearer TOKEN", or "Basic" with the token as
 * the password. Takes the same time wherever they differ.
 */
bool request_policy_has_token(const char *authorization, const char *token);

/* ERROR_DENIED when every user can read or change the open file. `what`: "the token". */
MUST_CHECK bool request_policy_check_secret(
	int fd, const char *path, const char *what, struct error *err);

/* The first line of the file. ERROR_DENIED when others may read it. Free with free(). */
MUST_CHECK bool request_policy_read_token(const char *path, char **token, struct error *err);
