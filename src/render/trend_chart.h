/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trend as pictures: one small chart for each site, every point with its 95% interval, the fitted
 * growth with its onset, the levels between steps, restarts as gaps. SVG, or a page that holds it
 * together with a table; both self-contained, in light and dark.
 */
#pragma once

#include "analysis/trend.h"
#include "base/buffer.h"

struct trend_chart_options {
	const char *title;    /* program or target */
	size_t site_limit;    /* charts beside that of the total */
	const char *period;   /* from when to when; "" where no times are known */
	size_t damaged_count; /* profiles that could not be read */
};

void trend_chart_svg(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out);
void trend_chart_html(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out);
