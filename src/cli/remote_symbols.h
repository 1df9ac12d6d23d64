/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names from gperftools' page /pprof/symbol: GET says whether there are any ("num_symbols: 1"),
 * POST of "0xa+0xb" answers with a line "0xa<tab>name" for each. /pprof/cmdline names the program.
 */
#pragma once

#include "cli/remote_url.h"
#include "cli/report_options.h"
#include "profile/profile.h"

/*
 * Names the locations of the profile that have none. A server without that page is no failure:
 * then names have to come from files.
 */
MUST_CHECK bool remote_symbols_add(const struct remote_url *url,
	const struct report_options *options, struct profile *profile, struct error *err);
