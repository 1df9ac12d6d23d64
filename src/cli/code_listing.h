/* SPDX-License-Identifier: Apache-2.0 */
/* Code of functions with figures in front of it: --list, --weblist, --disasm. */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "cli/report_session.h"

/*
 * Source or assembly with figures beside it, of the functions that match `pattern` and that
 * something was allocated in or below. `kind` is REPORT_LIST, REPORT_WEBLIST or REPORT_DISASM.
 */
MUST_CHECK bool code_listing_annotate(const struct report_session *session,
	const struct report_variation *variation, enum report_output kind, const char *pattern,
	struct buffer *out, struct error *err);
