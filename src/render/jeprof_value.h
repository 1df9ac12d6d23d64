/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of the textual reports, exactly as jeprof prints them, because scripts parse them: MB of
 * 1048576 bytes with one decimal, or whole bytes or objects, cut rather than rounded.
 */
#pragma once

#include "render/renderers.h"

struct jeprof_value {
	char text[32];
};

/* The value in the unit of jeprof_value_unit. */
struct jeprof_value jeprof_value_format(
	const struct view *view, const struct render_options *options, double value);

/* "MB", "B", "objects", "samples" or "seconds". */
const char *jeprof_value_unit(const struct view *view, const struct render_options *options);

/* "12.3%" of the whole; of a whole of 0 "0.0%" for 0, and "-" for everything else. */
struct jeprof_value jeprof_value_percent(double value, double whole);
