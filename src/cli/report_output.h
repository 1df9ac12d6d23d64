/* SPDX-License-Identifier: Apache-2.0 */
/* Writing what the options of a report ask for, once its profiles are loaded. */
#pragma once

#include "base/buffer.h"
#include "cli/report_session.h"

/* All outputs but the shell. */
MUST_CHECK bool report_output_write(const struct report_session *session, struct error *err);

/* To the file of the options, or to standard output. */
MUST_CHECK bool report_output_emit(const struct report_options *options, const struct buffer *out,
	bool is_binary, struct error *err);

/* Renders a view and opens a viewer on it: "gv", "evince" or "web". */
MUST_CHECK bool report_output_show(const struct report_session *session, const struct view *view,
	const char *viewer, struct error *err);

/*
 * Source or assembly with figures beside it, of the functions that match `pattern` and that
 * something was allocated in or below. `kind` is REPORT_LIST, REPORT_WEBLIST or REPORT_DISASM.
 */
MUST_CHECK bool report_output_annotate(const struct report_session *session,
	const struct report_variation *variation, enum report_output kind, const char *pattern,
	struct buffer *out, struct error *err);

/* The shell of jeprof's mode: commands on loaded profiles, until "quit" or the end of the input. */
void report_shell_run(const struct report_session *session);
