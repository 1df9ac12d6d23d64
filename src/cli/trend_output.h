/* SPDX-License-Identifier: Apache-2.0 */
/* A trend as text, JSON, SVG or HTML. docs/trend-json.md describes the JSON. */
#pragma once

#include "render/curves.h"

enum trend_output {
	TREND_OUTPUT_TEXT,
	TREND_OUTPUT_JSON,
	TREND_OUTPUT_SVG,
	TREND_OUTPUT_HTML,
};

void trend_output_write(const struct trend *trend, enum trend_output output,
	const struct curves_options *options, struct buffer *out);
