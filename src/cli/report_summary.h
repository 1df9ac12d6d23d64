/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report says to a person who asked for nothing in particular: the total with its error,
 * the functions that allocate most, and the commands that show more. Scripts, and whoever names an
 * output, get the text of render_text.c.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/report_session.h"

/* Whether standard output is a terminal, and no option says what to show. */
bool report_summary_is_wanted(const struct report_options *options);

MUST_CHECK bool report_summary_print(
	const struct report_session *session, FILE *out, struct error *err);
