/* SPDX-License-Identifier: Apache-2.0 */
#include "render/quantity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_heap(enum profile_kind kind)
{
	return kind == PROFILE_HEAP || kind == PROFILE_GROWTH;
}

static bool is_amount(enum profile_counter counter)
{
	return counter == PROFILE_INUSE_SPACE || counter == PROFILE_ALLOC_SPACE;
}

enum quantity_style quantity_style_of(
	enum profile_kind kind, enum profile_counter counter, bool show_bytes)
{
	if (!is_amount(counter))
		return QUANTITY_COUNT;
	if (!is_heap(kind))
		return QUANTITY_TIME;
	return show_bytes ? QUANTITY_EXACT_BYTES : QUANTITY_BYTES;
}

const char *quantity_name(enum profile_kind kind, enum profile_counter counter)
{
	static const char *const names[PROFILE_COUNTERS] = {
		[PROFILE_INUSE_OBJECTS] = "objects in use",
		[PROFILE_INUSE_SPACE] = "space in use",
		[PROFILE_ALLOC_OBJECTS] = "objects allocated",
		[PROFILE_ALLOC_SPACE] = "space allocated",
	};

	switch (kind) {
	case PROFILE_HEAP:
	case PROFILE_GROWTH:
		break;
	case PROFILE_CPU:
		return is_amount(counter) ? "time" : "samples";
	case PROFILE_CONTENTION:
		return is_amount(counter) ? "time waited" : "waits";
	}
	return names[counter];
}

const char *quantity_label(const struct view *view, enum profile_counter counter)
{
	return view->label != NULL && counter == view->counter ? view->label
							       : quantity_name(view->kind, counter);
}

/* In the largest unit of which there is one; each is so many times the one before. */
static void format_scaled(char *out, size_t size, double value, double step,
	const char *const *units, size_t unit_count)
{
	size_t unit = 0;

	/* What would be printed as a whole step, 1023.95 as 1024.0, goes into the next unit. */
	while (value >= step - 0.05 && unit + 1 < unit_count) {
		value /= step;
		unit++;
	}
	snprintf(out, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static void format_bytes(char *out, size_t size, double value)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

	format_scaled(out, size, value, 1024, units, sizeof units / sizeof units[0]);
}

static void format_time(char *out, size_t size, double value)
{
	static const char *const units[] = { "ns", "\xc2\xb5s", "ms", "s" };

	format_scaled(out, size, value, 1000, units, sizeof units / sizeof units[0]);
}

static void format_count(char *out, size_t size, double value)
{
	char digits[32];
	const int length = snprintf(digits, sizeof digits, "%.0f", value);
	size_t used = 0;

	if (length <= 0 || (size_t)length >= 20) {
		snprintf(out, size, "%.3g", value);
		return;
	}
	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			out[used++] = ',';
		out[used++] = digits[i];
	}
	out[used] = '\0';
}

struct quantity_text quantity_format(enum quantity_style style, double value, bool is_change)
{
	struct quantity_text result = { "" };
	const size_t room = sizeof result.text - sizeof "- B";
	char *at = result.text;

	if (value < 0)
		*at++ = '-';
	else if (is_change && value > 0)
		*at++ = '+';
	switch (style) {
	case QUANTITY_BYTES:
		format_bytes(at, room, fabs(value));
		break;
	case QUANTITY_TIME:
		format_time(at, room, fabs(value));
		break;
	case QUANTITY_COUNT:
		format_count(at, room, fabs(value));
		break;
	case QUANTITY_EXACT_BYTES:
		format_count(at, room, fabs(value));
		strcat(at, " B");
		break;
	}
	return result;
}
