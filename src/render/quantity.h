/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values as texts: for people ("217.1 MiB", "1,608,563", "+3.0 KiB", "12.5 ms"), and as jeprof
 * prints them. Any thread.
 */
#pragma once

#include <stdbool.h>

#include "analysis/view.h"
#include "profile/profile.h"
#include "render/renderers.h"

/* As options and settings name them; NULL behind the last. */
extern const char *const render_unit_names[];

struct quantity_text {
	char text[32];
};

enum quantity_style {
	QUANTITY_COUNT,
	QUANTITY_BYTES,	      /* in the unit that gives a short number */
	QUANTITY_EXACT_BYTES, /* to the byte */
	QUANTITY_TIME,	      /* of nanoseconds */
};

enum quantity_style quantity_style_of(
	enum profile_kind kind, enum profile_counter counter, bool show_bytes);

/* With a sign in front when `is_change`, also for growth. */
struct quantity_text quantity_format(enum quantity_style style, double value, bool is_change);

/* In the unit of the options, or without one as above. */
struct quantity_text quantity_format_in_unit(const struct view *view,
	const struct render_options *options, double value, bool is_change);

/* ERROR_USAGE for a unit of times where a profile has bytes, and the other way round. */
MUST_CHECK bool quantity_check_unit(
	enum profile_kind kind, enum render_unit unit, struct error *err);

/*
 * A change and its interval in one unit: "+1.7 ± 0.8 MiB" by half of the interval, or, where one
 * side is wider than the other by more than half, "+1.7 [+0.9 to +3.4] MiB"; also where 0 is not in
 * the interval, but would be in "+1.2 ± 1.3 MiB".
 */
struct quantity_interval_text {
	char text[96];
};
struct quantity_interval_text quantity_format_interval(
	enum quantity_style style, double value, double low, double high);

/* For titles: "space in use". */
const char *quantity_name(enum profile_kind kind, enum profile_counter counter);

/* Of a counter of a view, which may have its own name for the requested one. */
const char *quantity_label(const struct view *view, enum profile_counter counter);

/*
 * A figure of the textual reports, exactly as jeprof prints it, because scripts parse them: MB of
 * 1048576 bytes with one decimal, or whole bytes or objects, cut rather than rounded; or in the
 * unit of the options.
 */
struct jeprof_value {
	char text[32];
};

/* In the unit of jeprof_value_unit. */
struct jeprof_value jeprof_value_format(
	const struct view *view, const struct render_options *options, double value);

/* The same, and "." for 0, so that what there is stands out. */
struct jeprof_value jeprof_value_sparse(
	const struct view *view, const struct render_options *options, double value);

/* "MB", "B", "objects", "samples" or "seconds", and the other names of units. */
const char *jeprof_value_unit(const struct view *view, const struct render_options *options);

/* "12.3%" of the whole; of a whole of 0 "0.0%" for 0, and "-" for everything else. */
struct jeprof_value jeprof_value_percent(double value, double whole);
