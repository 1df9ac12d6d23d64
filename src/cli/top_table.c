/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/terminal.h"
#include "render/quantity.h"

/* "1023.9 MiB", the same with a sign, objects by the million. */
#define SITE_FORMAT "%10s %10s %11s %11s  %s"
/* A pipe has room for the error of the growth, too. */
#define WIDE_SITE_FORMAT "%10s %10s %11s %10s %11s  %s"

/* Half the width of a 95% interval, in standard errors. */
static const double INTERVAL = 1.96;

static double growth(const struct top_site *site)
{
	return site->bytes.value - site->base_bytes;
}

/*
 * As if no object were in both profiles: what stayed was sampled once, so that the error is this at
 * most. A site that did not change at all is the same samples.
 */
static double growth_error(struct estimate now, double base_bytes, double base_variance)
{
	return now.value == base_bytes ? 0 : INTERVAL * sqrt(now.variance + base_variance);
}

static int descending(double x, double y)
{
	return (x < y) - (x > y);
}

static int by_bytes(const void *a, const void *b)
{
	const struct top_site *const x = a, *const y = b;
	const int order = descending(x->bytes.value, y->bytes.value);

	return order != 0 ? order : strcmp(x->name, y->name);
}

static int by_growth(const void *a, const void *b)
{
	const int order = descending(growth(a), growth(b));

	return order != 0 ? order : by_bytes(a, b);
}

static int by_objects(const void *a, const void *b)
{
	const struct top_site *const x = a, *const y = b;
	const int order = descending(x->objects, y->objects);

	return order != 0 ? order : by_bytes(a, b);
}

static int (*const orders[])(const void *, const void *) = {
	[TOP_BY_BYTES] = by_bytes,
	[TOP_BY_GROWTH] = by_growth,
	[TOP_BY_OBJECTS] = by_objects,
};

void top_table_line(struct buffer *out, size_t columns, const char *text)
{
	size_t left = strlen(text);

	for (size_t column = 0; left > 0 && (columns == 0 || column < columns); column++) {
		size_t size = utf8_length(text, left);
		if (size != 0 && printable_is_all(text, size))
			buffer_append(out, text, size);
		else
			buffer_append_char(out, '?');
		size = size == 0 ? 1 : size;
		text += size;
		left -= size;
	}
	buffer_append_char(out, '\n');
}

static struct quantity_text bytes_text(double bytes, bool is_change)
{
	return quantity_format(QUANTITY_BYTES, bytes, is_change);
}

static void write_styled(
	struct buffer *out, size_t columns, enum terminal_style style, const char *text)
{
	CLEANUP(buffer_cleanup) struct buffer line = { 0 };

	buffer_init(&line, &memory_or_exit);
	top_table_line(&line, columns, text);
	buffer_append_string(out, terminal_begin(stdout, style));
	buffer_append(out, line.data, line.size - 1);
	buffer_append_string(out, terminal_end(stdout));
	buffer_append_char(out, '\n');
}

static void write_heading(
	const struct top_table *table, const struct top_look *look, struct buffer *out)
{
	char text[512], error[64], moment[CONTROL_MOMENT_BYTES];

	snprintf(text, sizeof text, "%s  %s  sampling is %s%s%s%s", table->label,
		control_moment(look->time_ms, moment), look->is_sampling ? "on" : "off",
		table->is_frozen ? "  FROZEN" : "", *table->filter == '\0' ? "" : "  only ",
		table->filter);
	write_styled(out, table->columns, TERMINAL_BOLD, text);
	snprintf(error, sizeof error, " +-%s",
		bytes_text(growth_error(look->bytes, look->base_bytes, look->base_variance), false)
			.text);
	snprintf(text, sizeof text, "in use %s +-%s by the profile, %s%s since %s",
		bytes_text(look->bytes.value, false).text,
		bytes_text(INTERVAL * sqrt(look->bytes.variance), false).text,
		bytes_text(look->bytes.value - look->base_bytes, true).text,
		table->columns == 0 ? error : "", control_moment(look->base_ms, moment));
	top_table_line(out, table->columns, text);
	snprintf(text, sizeof text, "allocated %s, resident %s by jemalloc's count",
		bytes_text((double)look->allocated_bytes, false).text,
		bytes_text((double)look->resident_bytes, false).text);
	top_table_line(out, table->columns, text);
	const char *const in_use = table->order == TOP_BY_BYTES ? "IN USE*" : "IN USE";
	const char *const grown = table->order == TOP_BY_GROWTH ? "GROWTH*" : "GROWTH";
	const char *const objects = table->order == TOP_BY_OBJECTS ? "OBJECTS*" : "OBJECTS";
	const char *const site = "SITE (innermost functions)";
	if (table->columns == 0)
		snprintf(text, sizeof text, WIDE_SITE_FORMAT, in_use, "+-", grown, "+-", objects,
			site);
	else
		snprintf(text, sizeof text, SITE_FORMAT, in_use, "+-", grown, objects, site);
	write_styled(out, table->columns, TERMINAL_DIM, text);
}

static void write_site(
	const struct top_table *table, const struct top_site *site, struct buffer *out)
{
	const struct quantity_text in_use = bytes_text(site->bytes.value, false);
	const struct quantity_text error = bytes_text(INTERVAL * sqrt(site->bytes.variance), false);
	const struct quantity_text grown = bytes_text(growth(site), true);
	const struct quantity_text grown_error =
		bytes_text(growth_error(site->bytes, site->base_bytes, site->base_variance), false);
	const struct quantity_text objects = quantity_format(QUANTITY_COUNT, site->objects, false);
	CLEANUP(free_cleanup)
	char *text = table->columns == 0
			     ? xasprintf(WIDE_SITE_FORMAT, in_use.text, error.text, grown.text,
				       grown_error.text, objects.text, site->name)
			     : xasprintf(SITE_FORMAT, in_use.text, error.text, grown.text,
				       objects.text, site->name);

	top_table_line(out, table->columns, text);
}

size_t top_table_write(const struct top_table *table, struct top_look *look, struct buffer *out)
{
	size_t matching = 0;

	write_heading(table, look, out);
	if (look->site_count > 0)
		qsort(look->sites, look->site_count, sizeof *look->sites, orders[table->order]);
	for (size_t i = 0; i < look->site_count; i++) {
		const struct top_site *const site = &look->sites[i];
		if (strcasestr(site->name, table->filter) == NULL)
			continue;
		if (matching >= table->skip && matching - table->skip < table->rows)
			write_site(table, site, out);
		matching++;
	}
	return matching;
}
