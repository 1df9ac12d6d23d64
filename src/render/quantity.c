/* SPDX-License-Identifier: Apache-2.0 */
#include "render/quantity.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const char *const render_unit_names[] = {
	[RENDER_UNIT_DEFAULT] = "default",
	[RENDER_UNIT_AUTO] = "auto",
	[RENDER_UNIT_B] = "b",
	[RENDER_UNIT_KB] = "kb",
	[RENDER_UNIT_MB] = "mb",
	[RENDER_UNIT_GB] = "gb",
	[RENDER_UNIT_TB] = "tb",
	[RENDER_UNIT_NS] = "ns",
	[RENDER_UNIT_US] = "us",
	[RENDER_UNIT_MS] = "ms",
	[RENDER_UNIT_S] = "s",
	NULL,
};

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

struct scale {
	double step; /* the factor from one unit to the next */
	size_t unit_count;
	const char *const *units;
};

static const struct scale byte_scale = { 1024, 7,
	(const char *const[]){ "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" } };
static const struct scale time_scale = { 1000, 4,
	(const char *const[]){ "ns", "\xc2\xb5s", "ms", "s" } };

/* The largest unit of which there is one; `value` is changed to it. */
static size_t scale_unit(const struct scale *scale, double *value)
{
	size_t unit = 0;

	/* 1023.95 would be printed as 1024.0: that needs the next unit. */
	while (*value >= scale->step - 0.05 && unit + 1 < scale->unit_count) {
		*value /= scale->step;
		unit++;
	}
	return unit;
}

static void format_scaled(char *out, size_t size, const struct scale *scale, double value)
{
	const size_t unit = scale_unit(scale, &value);

	snprintf(out, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, scale->units[unit]);
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
		format_scaled(at, room, &byte_scale, fabs(value));
		break;
	case QUANTITY_TIME:
		format_scaled(at, room, &time_scale, fabs(value));
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

/* A change without its unit; what is shown as 0 has no sign. */
static const char *format_signed(double value, int digits, char text[24])
{
	const double shown = fabs(value);
	const char *const sign = shown < 0.5 * pow(10, -digits) ? "" : value < 0 ? "-" : "+";

	snprintf(text, 24, "%s%.*f", sign, digits, shown);
	return text;
}

struct quantity_interval_text quantity_format_interval(
	enum quantity_style style, double value, double low, double high)
{
	const double uneven = 1.5, min_left = 0.1;
	const int max_digits = 3;
	const double error = (high - low) / 2;
	const double nearest = low > 0 ? low : high < 0 ? -high : 0;
	/* Half of an interval without 0 may be more than its value. */
	const bool is_even =
		fmax(value - low, high - value) <= uneven * fmin(value - low, high - value) &&
		(nearest == 0 || error < (1 - min_left) * fabs(value));
	const struct scale *const scale = style == QUANTITY_BYTES  ? &byte_scale
					  : style == QUANTITY_TIME ? &time_scale
								   : NULL;
	struct quantity_interval_text result;
	char values[3][24];

	if (scale == NULL && is_even) {
		snprintf(result.text, sizeof result.text, "%s ± %s",
			quantity_format(style, value, true).text,
			quantity_format(style, error, false).text);
		return result;
	}
	if (scale == NULL) {
		snprintf(result.text, sizeof result.text, "%s [%s to %s]",
			quantity_format(style, value, true).text,
			quantity_format(style, low, true).text,
			quantity_format(style, high, true).text);
		return result;
	}
	double larger = is_even ? fmax(fabs(value), error) : fmax(fabs(low), fabs(high));
	const size_t unit = scale_unit(scale, &larger);
	const double divisor = pow(scale->step, (double)unit);
	int digits = unit > 0;
	while (!is_even && unit > 0 && nearest > 0 && digits < max_digits &&
		nearest / divisor < 0.5 * pow(10, -digits))
		digits++;
	format_signed(value / divisor, digits, values[0]);
	if (is_even)
		snprintf(result.text, sizeof result.text, "%s ± %.*f %s", values[0], digits,
			error / divisor, scale->units[unit]);
	else
		snprintf(result.text, sizeof result.text, "%s [%s to %s] %s", values[0],
			format_signed(low / divisor, digits, values[1]),
			format_signed(high / divisor, digits, values[2]), scale->units[unit]);
	return result;
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

/* Where a unit is in the scale of its figures, and what jeprof's reports call it. */
static const struct {
	const struct scale *scale;
	size_t position;
	const char *name;
} units[] = {
	[RENDER_UNIT_B] = { &byte_scale, 0, "B" },
	[RENDER_UNIT_KB] = { &byte_scale, 1, "KB" },
	[RENDER_UNIT_MB] = { &byte_scale, 2, "MB" },
	[RENDER_UNIT_GB] = { &byte_scale, 3, "GB" },
	[RENDER_UNIT_TB] = { &byte_scale, 4, "TB" },
	[RENDER_UNIT_NS] = { &time_scale, 0, "ns" },
	[RENDER_UNIT_US] = { &time_scale, 1, "us" },
	[RENDER_UNIT_MS] = { &time_scale, 2, "ms" },
	[RENDER_UNIT_S] = { &time_scale, 3, "seconds" },
};

static const struct scale *scale_of(const struct view *view)
{
	if (!is_amount(view->counter) || view->kind == PROFILE_CPU)
		return NULL;
	return is_heap(view->kind) ? &byte_scale : &time_scale;
}

bool quantity_check_unit(enum profile_kind kind, enum render_unit unit, struct error *err)
{
	const bool is_bytes = is_heap(kind);

	/* Counts have none, whatever is asked for. */
	if (units[unit].scale == NULL || kind == PROFILE_CPU ||
		units[unit].scale == (is_bytes ? &byte_scale : &time_scale))
		return true;
	return error_set(err, ERROR_USAGE, "the unit %s is not one of %s: use %s",
		render_unit_names[unit], is_bytes ? "bytes" : "times",
		is_bytes ? "b, kb, mb, gb, tb or auto" : "ns, us, ms, s or auto");
}

/* The unit of what jeprof_value_format prints; RENDER_UNIT_DEFAULT for counts. */
static enum render_unit unit_of(const struct view *view, const struct render_options *options)
{
	const struct scale *const scale = scale_of(view);

	if (scale == NULL)
		return RENDER_UNIT_DEFAULT;
	const bool is_bytes = scale == &byte_scale;
	if (options->unit == RENDER_UNIT_AUTO) {
		const enum render_unit first = is_bytes ? RENDER_UNIT_B : RENDER_UNIT_NS;
		const enum render_unit last = is_bytes ? RENDER_UNIT_TB : RENDER_UNIT_S;
		double total = fmax(view->total[view->counter], view->base_total[view->counter]);
		const size_t position = scale_unit(scale, &total);
		return first + position > last ? last : (enum render_unit)(first + position);
	}
	if (options->unit != RENDER_UNIT_DEFAULT)
		return options->unit;
	if (!is_bytes)
		return RENDER_UNIT_S;
	return options->show_bytes || options->mean ? RENDER_UNIT_B : RENDER_UNIT_MB;
}

struct jeprof_value jeprof_value_format(
	const struct view *view, const struct render_options *options, double value)
{
	const enum render_unit unit = unit_of(view, options);
	struct jeprof_value figure;

	if (unit == RENDER_UNIT_DEFAULT || units[unit].position == 0) {
		/* Adding 0 turns -0 into 0. */
		snprintf(figure.text, sizeof figure.text, "%.0f", trunc(value) + 0.0);
		return figure;
	}
	const double divisor = pow(units[unit].scale->step, (double)units[unit].position);
	if (units[unit].scale == &byte_scale)
		return format_tenths(value / divisor, "");
	snprintf(figure.text, sizeof figure.text, "%.3f", value / divisor);
	return figure;
}

struct quantity_text quantity_format_in_unit(
	const struct view *view, const struct render_options *options, double value, bool is_change)
{
	struct quantity_text result;

	if (scale_of(view) == NULL || options->unit == RENDER_UNIT_DEFAULT ||
		options->unit == RENDER_UNIT_B)
		return quantity_format(
			quantity_style_of(view->kind, view->counter,
				options->show_bytes || options->unit == RENDER_UNIT_B),
			value, is_change);
	const enum render_unit unit = unit_of(view, options);
	const struct scale *const scale = units[unit].scale;
	const size_t position = units[unit].position;
	snprintf(result.text, sizeof result.text, "%s%.*f %s", is_change && value > 0 ? "+" : "",
		position == 0 ? 0 : 1, value / pow(scale->step, (double)position),
		scale->units[position]);
	return result;
}

struct jeprof_value jeprof_value_sparse(
	const struct view *view, const struct render_options *options, double value)
{
	return value == 0 ? (struct jeprof_value){ "." }
			  : jeprof_value_format(view, options, value);
}

const char *jeprof_value_unit(const struct view *view, const struct render_options *options)
{
	const enum render_unit unit = unit_of(view, options);

	if (unit != RENDER_UNIT_DEFAULT)
		return units[unit].name;
	return is_heap(view->kind) ? "objects" : "samples";
}

struct jeprof_value jeprof_value_percent(double value, double whole)
{
	if (whole == 0 && value != 0)
		return (struct jeprof_value){ "-" };
	return format_tenths(whole == 0 ? 0 : value * 100 / whole, "%");
}
