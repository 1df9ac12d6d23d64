/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures of graphs through graphviz. Its library is opened at the first picture and not before,
 * so that nothing else pays for it, and in a child process: the time for a layout has no useful
 * bound, the library crashes on some graphs, leaks, and is not made for threads. Any thread may
 * call.
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Lays out the graph, a text in the DOT language, and appends the picture: "svg", "ps2", "pdf",
 * "gif", "png". ERROR_TIMEOUT when it took more than this number of seconds of processor time,
 * ERROR_UNSUPPORTED when the library or its part for the format is missing.
 */
MUST_CHECK bool graphviz_draw(const char *dot, const char *format, unsigned limit_s,
	struct buffer *out, struct error *err);
