/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source and assembly with figures beside them. Routines are what --list, --disasm and --weblist
 * are about: functions whose names match a pattern and that something was allocated in or below.
 */
#pragma once

#include "base/buffer.h"
#include "cli/report_session.h"

/* `kind` is REPORT_LIST, REPORT_WEBLIST or REPORT_DISASM. */
MUST_CHECK bool report_annotate(const struct report_session *session,
	const struct report_variation *variation, enum report_output kind, const char *pattern,
	struct buffer *out, struct error *err);
