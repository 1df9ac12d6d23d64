/* SPDX-License-Identifier: Apache-2.0 */
/* Where the profiles of a trend come from: files, or the kept runs of a target. */
#pragma once

#include "analysis/series.h"
#include "cli/report_session.h"
#include "render/render_trend.h"

/*
 * Loads the operands of session->options in the order of time, each with its time where it is
 * known: two profiles at least. The session borrows what they share, to be given symbols. Notes of
 * a history are added to `notes`.
 */
MUST_CHECK bool trend_series_load(struct report_session *session, struct series *series,
	struct trend_notes *notes, struct error *err);
