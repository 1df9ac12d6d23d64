/* SPDX-License-Identifier: Apache-2.0 */
/* The callers and callees of functions, as the shell's command peek shows them. */
#pragma once

#include "analysis/pattern.h"
#include "analysis/view.h"
#include "base/buffer.h"
#include "render/renderers.h"

/*
 * The functions that a pattern matches, each with its callers above and its callees below.
 * ERROR_USAGE when a name exceeds the limits of pattern matching.
 */
MUST_CHECK bool report_peek_write(const struct view *view, const struct render_options *render,
	struct pattern *pattern, struct buffer *out, struct error *err);
