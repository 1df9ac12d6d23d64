/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where profiles of a report come from: what an operand of the command line means.
 *
 *	FILE			of any known format, compressed or not
 *	-			standard input
 *	http://host:port/...	see cli/remote_profile.h; "host:port" is one, too
 *	TARGET			a running process with an agent: a profile is taken now
 */
#pragma once

#include <sys/types.h>

#include "cli/report_options.h"
#include "profile/profile.h"

struct report_session;

/* Whether the operand is an executable rather than a profile. */
bool report_source_is_program(const char *operand);

/*
 * Reads it. `has_program` says that the program is at hand, so that names need not come from a
 * server. Sets *pid to the process that a TARGET is, if it is on this machine.
 */
MUST_CHECK bool report_source_read(const char *source, const struct report_options *options,
	bool has_program, pid_t *pid, struct profile **ret, struct error *err);

typedef bool report_source_load(
	struct report_session *session, const char *source, struct error *err);

/*
 * Calls `load` with each source that the operand stands for: "host@3/path" is the hosts 0.host,
 * 1.host and 2.host, anything else is itself.
 */
MUST_CHECK bool report_source_read_each(const char *operand, report_source_load *load,
	struct report_session *session, struct error *err);
