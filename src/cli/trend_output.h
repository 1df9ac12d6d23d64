/* SPDX-License-Identifier: Apache-2.0 */
/* A trend as text, JSON, SVG or HTML. docs/trend-json.md describes the JSON. */
#pragma once

#include "render/trend_chart.h"

enum trend_output {
	TREND_OUTPUT_TEXT,
	TREND_OUTPUT_JSON,
	TREND_OUTPUT_SVG,
	TREND_OUTPUT_HTML,
};

/* "07:20:36 to 08:20:36", with dates unless it was today; "" where no times are known. */
enum { TREND_PERIOD_BYTES = 80 };
void trend_output_period(const struct trend *trend, char text[TREND_PERIOD_BYTES]);

void trend_output_write(const struct trend *trend, enum trend_output output,
	const struct trend_chart_options *options, struct buffer *out);
