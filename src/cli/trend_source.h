/* SPDX-License-Identifier: Apache-2.0 */
/* Where the profiles of a trend come from: files, or the kept runs of a target. */
#pragma once

#include "cli/report_session.h"

/*
 * Loads the operands of session->options in the order of time, each with its time where it is
 * known. Two profiles at least.
 */
MUST_CHECK bool trend_source_load(struct report_session *session, struct error *err);
