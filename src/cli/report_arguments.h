/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of `heapctl report`, `heapctl diff` and jeprof. */
#pragma once

#include "base/error.h"
#include "cli/report_options.h"

/*
 * Reads the command line of a verb with report_option_table; argv is reordered and must outlive the
 * options. `is_jeprof` makes short forms mean what they mean there, and sets the default of a
 * terminal: the shell.
 */
MUST_CHECK bool report_options_parse(struct report_options *options, const struct verb *verb,
	int argc, char **argv, bool is_jeprof, struct error *err);
void report_options_deinit(struct report_options *options);
