/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/clickhouse_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"

static const char *escape_of(char c)
{
	switch (c) {
	case '\b':
		return "\\b";
	case '\f':
		return "\\f";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	case '\t':
		return "\\t";
	case '\'':
		return "\\'";
	case '\\':
		return "\\\\";
	default:
		return NULL;
	}
}

void clickhouse_append_column(struct buffer *out, const char *text)
{
	const size_t size = strlen(text);

	for (size_t at = 0; at < size;) {
		const size_t length = utf8_length(text + at, size - at);
		const char *const escape = escape_of(text[at]);
		if (escape != NULL)
			buffer_append_string(out, escape);
		else if (length == 0)
			buffer_append_string(out, UTF8_REPLACEMENT);
		else
			buffer_append(out, text + at, length);
		at += length == 0 ? 1 : length;
	}
}

void clickhouse_append_quoted(struct buffer *out, const char *text)
{
	buffer_append_char(out, '\'');
	clickhouse_append_column(out, text);
	buffer_append_char(out, '\'');
}

void clickhouse_append_texts(struct buffer *out, const char *const *texts, size_t count)
{
	buffer_append_char(out, '[');
	for (size_t i = 0; i < count; i++) {
		if (i != 0)
			buffer_append_char(out, ',');
		clickhouse_append_quoted(out, texts[i]);
	}
	buffer_append_char(out, ']');
}

void clickhouse_append_numbers(struct buffer *out, const uint64_t *numbers, size_t count)
{
	buffer_append_char(out, '[');
	for (size_t i = 0; i < count; i++)
		buffer_printf(out, "%s%" PRIu64, i == 0 ? "" : ",", numbers[i]);
	buffer_append_char(out, ']');
}

void clickhouse_append_real(struct buffer *out, double value)
{
	if (value == floor(value) && fabs(value) < 0x1p53)
		buffer_printf(out, "%.0f", value);
	else
		buffer_printf(out, "%.17g", value);
}

bool clickhouse_is_name(const char *name)
{
	return name[0] != '\0' && strlen(name) <= 64 &&
	       name[strspn(name,
		       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == '\0';
}
