/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exposition.h"

#include <math.h>

void exposition_init(struct exposition *exposition, struct buffer *out, bool is_openmetrics)
{
	*exposition = (struct exposition){ .out = out, .is_openmetrics = is_openmetrics };
}

const char *exposition_media_type(const struct exposition *exposition)
{
	return exposition->is_openmetrics
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

/* The suffix belongs to the family's name in 0.0.4 and to the sample's only in OpenMetrics. */
static const char *total(const struct exposition *exposition, bool in_family)
{
	return exposition->type == EXPOSITION_COUNTER && !(in_family && exposition->is_openmetrics)
		       ? "_total"
		       : "";
}

void exposition_family(struct exposition *exposition, const char *name, enum exposition_type type,
	const char *help)
{
	struct buffer *const out = exposition->out;

	exposition->family = name;
	exposition->type = type;
	buffer_printf(out, "# HELP %s%s %s\n", name, total(exposition, true), help);
	buffer_printf(out, "# TYPE %s%s %s\n", name, total(exposition, true),
		type == EXPOSITION_COUNTER ? "counter" : "gauge");
}

void exposition_sample(struct exposition *exposition, const char *labels, double value)
{
	struct buffer *const out = exposition->out;
	const bool has_labels = *labels != '\0';

	buffer_printf(out, "%s%s%s%s%s ", exposition->family, total(exposition, false),
		has_labels ? "{" : "", labels, has_labels ? "}" : "");
	/* Whole numbers of bytes stay whole up to 2^53. */
	if (value == floor(value) && fabs(value) < 9007199254740992.0)
		buffer_printf(out, "%.0f\n", value);
	else
		buffer_printf(out, "%.15g\n", value);
}

void exposition_end(struct exposition *exposition)
{
	if (exposition->is_openmetrics)
		buffer_append_string(exposition->out, "# EOF\n");
}

void exposition_label(struct buffer *labels, const char *name, const char *value)
{
	if (labels->size > 0)
		buffer_append_char(labels, ',');
	buffer_append_string(labels, name);
	buffer_append_string(labels, "=\"");
	for (; *value != '\0'; value++) {
		if (*value == '\n') {
			buffer_append_string(labels, "\\n");
			continue;
		}
		if (*value == '"' || *value == '\\')
			buffer_append_char(labels, '\\');
		/* A process may call itself anything; the format wants UTF-8. */
		buffer_append_char(labels, (unsigned char)*value < 0x80 ? *value : '?');
	}
	buffer_append_char(labels, '"');
}
