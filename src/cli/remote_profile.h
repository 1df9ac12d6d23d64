/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that a server hands out over HTTP, in the ways of gperftools and of Go:
 *
 *	http://host:port/pprof/heap		(growth, profile, contention, ... too)
 *	https://host:port/debug/pprof/allocs
 *
 * Names come from the server as well, from pprof/symbol beside the profile, where it has that and
 * the profile brought none.
 */
#pragma once

#include <stdbool.h>

#include "cli/report_options.h"
#include "profile/profile.h"

/*
 * Whether an operand that is no file is meant as an address: "http://...", "https://..." or
 * "host:port" with a path or not.
 */
bool remote_profile_is_url(const char *text);

/*
 * Fetches the profile. `wants_names` is false when the program is at hand: then its own symbols
 * are used.
 */
MUST_CHECK bool remote_profile_read(const char *url, const struct report_options *options,
	bool wants_names, struct profile **ret, struct error *err);
