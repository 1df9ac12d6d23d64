/* SPDX-License-Identifier: Apache-2.0 */
#include "render/figure.h"

#include <math.h>
#include <stdio.h>

static bool is_space(const struct view *view)
{
	return view->counter == PROFILE_INUSE_SPACE || view->counter == PROFILE_ALLOC_SPACE;
}

struct figure figure_format(
	const struct view *view, const struct render_options *options, double value)
{
	struct figure figure;
	const bool is_heap = view->kind == PROFILE_HEAP || view->kind == PROFILE_GROWTH;

	if (is_heap && is_space(view) && !options->show_bytes)
		snprintf(figure.text, sizeof figure.text, "%.1f", value / 1048576);
	else if (view->kind == PROFILE_CONTENTION && is_space(view))
		snprintf(figure.text, sizeof figure.text, "%.3f", value / 1e9);
	else
		/* Adding 0 turns -0 into 0. */
		snprintf(figure.text, sizeof figure.text, "%.0f", trunc(value) + 0.0);
	return figure;
}

const char *figure_unit(const struct view *view, const struct render_options *options)
{
	switch (view->kind) {
	case PROFILE_HEAP:
	case PROFILE_GROWTH:
		return !is_space(view) ? "objects" : options->show_bytes ? "B" : "MB";
	case PROFILE_CONTENTION:
		return is_space(view) ? "seconds" : "samples";
	case PROFILE_CPU:
		break;
	}
	return "samples";
}

struct figure figure_percent(double value, double whole)
{
	struct figure figure;

	if (whole != 0)
		snprintf(figure.text, sizeof figure.text, "%.1f%%", value * 100 / whole);
	else
		snprintf(figure.text, sizeof figure.text, "%s",
			value == 0  ? "nan"
			: value > 0 ? "+inf"
				    : "-inf");
	return figure;
}
