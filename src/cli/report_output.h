/* SPDX-License-Identifier: Apache-2.0 */
/* Writing what the options of a report ask for, once its profiles are loaded. */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "cli/report_session.h"

/* All outputs but the shell. */
MUST_CHECK bool report_output_write(const struct report_session *session, struct error *err);

/* The profiles as one in jeprof's format with symbols, as REPORT_RAW writes it. */
MUST_CHECK bool report_output_raw(
	const struct report_session *session, struct buffer *out, struct error *err);

/* The same as pprof's protocol buffer, as REPORT_PPROF writes it. */
MUST_CHECK bool report_output_pprof(
	const struct report_session *session, struct buffer *out, struct error *err);

/* To the file of the options, or to standard output. */
MUST_CHECK bool report_output_emit(const struct report_options *options, const struct buffer *out,
	bool is_binary, struct error *err);

/*
 * Renders a view and opens a viewer on it: "gv", "evince" or "web". Without a renderer it is a call
 * graph in the format that the viewer takes.
 */
MUST_CHECK bool report_output_show(const struct report_session *session, const struct view *view,
	const char *viewer, const struct renderer *chosen, struct error *err);

/* The shell of jeprof's mode: commands on loaded profiles, until "quit" or the end of the input. */
void report_shell_run(const struct report_session *session);

/*
 * Shows a picture with "gv" and its scale, with "web" for a browser, or with another program that
 * takes a file. It goes into a file that only we can read, under a name that cannot be guessed and
 * that is removed once the viewer is done with it. For a shell that continues: does not wait, and
 * the viewer neither reads from the terminal nor gets its interrupts. Its failure is printed when
 * it happens.
 */
MUST_CHECK bool viewer_open_beside(const char *viewer, long scale, const struct buffer *picture,
	const char *extension, struct error *err);
