/* SPDX-License-Identifier: Apache-2.0 */
#include "render/jeprof_value.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool is_space(const struct view *view)
{
	return view->counter == PROFILE_INUSE_SPACE || view->counter == PROFILE_ALLOC_SPACE;
}

/* Writes backwards and returns where the text begins. */
static char *write_tenths(char *end, uint64_t tenths, bool is_negative)
{
	*--end = (char)('0' + tenths % 10);
	*--end = '.';
	tenths /= 10;
	do {
		*--end = (char)('0' + tenths % 10);
	} while ((tenths /= 10) != 0);
	if (is_negative)
		*--end = '-';
	return end;
}

/*
 * "%.1f", which makes up most of a long report: printf works out all binary digits. Where the
 * nearest tenth is beyond doubt, whatever the multiplication has rounded, that is not needed.
 */
static struct jeprof_value format_tenths(double value, const char *suffix)
{
	const double tenths = fabs(value) * 10;
	const double nearest = rint(tenths);
	struct jeprof_value figure;

	if (tenths < 1e12 && fabs(fabs(tenths - nearest) - 0.5) > 1e-3) {
		char text[24];
		char *const end = text + sizeof text - 1;
		*end = '\0';
		const char *const begin = write_tenths(end, (uint64_t)nearest, signbit(value) != 0);
		stpcpy(stpcpy(figure.text, begin), suffix);
	} else {
		snprintf(figure.text, sizeof figure.text, "%.1f%s", value, suffix);
	}
	return figure;
}

struct jeprof_value jeprof_value_format(
	const struct view *view, const struct render_options *options, double value)
{
	struct jeprof_value figure;
	const bool is_heap = view->kind == PROFILE_HEAP || view->kind == PROFILE_GROWTH;

	if (is_heap && is_space(view) && !options->show_bytes)
		return format_tenths(value / 1048576, "");
	if (view->kind == PROFILE_CONTENTION && is_space(view))
		snprintf(figure.text, sizeof figure.text, "%.3f", value / 1e9);
	else
		/* Adding 0 turns -0 into 0. */
		snprintf(figure.text, sizeof figure.text, "%.0f", trunc(value) + 0.0);
	return figure;
}

const char *jeprof_value_unit(const struct view *view, const struct render_options *options)
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

struct jeprof_value jeprof_value_percent(double value, double whole)
{
	if (whole == 0 && value != 0)
		return (struct jeprof_value){ "-" };
	return format_tenths(whole == 0 ? 0 : value * 100 / whole, "%");
}
