/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell's "peek": the functions that a pattern matches, each between its callers and callees.
 */
#pragma once

#include "analysis/pattern.h"
#include "analysis/view.h"
#include "render/render.h"

/* Appends to `out`. ERROR_USAGE when some name was too much for the pattern. */
MUST_CHECK bool report_peek(const struct view *view, const struct render_options *render,
	struct pattern *pattern, struct buffer *out, struct error *err);
