/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values as people read them in pictures: "217.1 MiB", "1,608,563", "+3.0 KiB", "12.5 ms". Any
 * thread.
 */
#pragma once

#include <stdbool.h>

#include "analysis/view.h"
#include "profile/profile.h"

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

/* A change and half of its interval in one unit: "+1.7 ± 0.8 MiB". */
struct quantity_error_text {
	char text[64];
};
struct quantity_error_text quantity_format_error(
	enum quantity_style style, double value, double error);

/* For titles: "space in use". */
const char *quantity_name(enum profile_kind kind, enum profile_counter counter);

/* Of a counter of a view, which may have a name of its own for the one that was asked for. */
const char *quantity_label(const struct view *view, enum profile_counter counter);
