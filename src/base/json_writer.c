/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static void before_value(struct json_writer *json)
{
	if (json->need_comma)
		buffer_append_char(json->out, ',');
	json->need_comma = true;
}

static void open_scope(struct json_writer *json, char bracket)
{
	before_value(json);
	buffer_append_char(json->out, bracket);
	json->need_comma = false;
}

static void close_scope(struct json_writer *json, char bracket)
{
	buffer_append_char(json->out, bracket);
	json->need_comma = true;
}

void json_object_begin(struct json_writer *json)
{
	open_scope(json, '{');
}

void json_object_end(struct json_writer *json)
{
	close_scope(json, '}');
}

void json_array_begin(struct json_writer *json)
{
	open_scope(json, '[');
}

void json_array_end(struct json_writer *json)
{
	close_scope(json, ']');
}

static void write_escaped(struct buffer *out, const char *text, size_t size)
{
	const unsigned char *at = (const unsigned char *)text;
	const unsigned char *const end = at + size;

	buffer_append_char(out, '"');
	while (at < end) {
		const size_t length = utf8_length((const char *)at, (size_t)(end - at));
		if (length == 0) {
			buffer_append_string(out, "\\ufffd");
			at++;
			continue;
		}
		if (*at == '"' || *at == '\\') {
			buffer_append_char(out, '\\');
			buffer_append(out, at, 1);
		} else if (*at == '\n') {
			buffer_append_string(out, "\\n");
		} else if (*at < 0x20 || *at == 0x7f || *at == '<') {
			/* '<' so that a document can stand inside a script element */
			buffer_printf(out, "\\u%04x", *at);
		} else {
			buffer_append(out, at, length);
		}
		at += length;
	}
	buffer_append_char(out, '"');
}

void json_key(struct json_writer *json, const char *key)
{
	before_value(json);
	write_escaped(json->out, key, strlen(key));
	buffer_append_char(json->out, ':');
	json->need_comma = false;
}

void json_put_string_sized(struct json_writer *json, const char *text, size_t size)
{
	before_value(json);
	write_escaped(json->out, text, size);
}

void json_put_string(struct json_writer *json, const char *text)
{
	if (text == NULL)
		json_put_null(json);
	else
		json_put_string_sized(json, text, strlen(text));
}

void json_put_integer(struct json_writer *json, int64_t value)
{
	before_value(json);
	buffer_printf(json->out, "%" PRId64, value);
}

void json_put_unsigned(struct json_writer *json, uint64_t value)
{
	before_value(json);
	buffer_printf(json->out, "%" PRIu64, value);
}

void json_put_real(struct json_writer *json, double value)
{
	char text[32];

	if (!isfinite(value)) {
		json_put_null(json);
		return;
	}
	before_value(json);
	snprintf(text, sizeof text, "%.17g", value);
	if (strtod(text, NULL) == value) {
		char shorter[32];
		snprintf(shorter, sizeof shorter, "%.15g", value);
		if (strtod(shorter, NULL) == value)
			memcpy(text, shorter, sizeof text);
	}
	/* A locale may write a decimal comma. */
	for (char *c = text; *c != '\0'; c++) {
		if (*c == ',')
			*c = '.';
	}
	buffer_append_string(json->out, text);
}

void json_put_bool(struct json_writer *json, bool value)
{
	before_value(json);
	buffer_append_string(json->out, value ? "true" : "false");
}

void json_put_null(struct json_writer *json)
{
	before_value(json);
	buffer_append_string(json->out, "null");
}

void json_put_raw(struct json_writer *json, const char *text, size_t size)
{
	before_value(json);
	buffer_append(json->out, text, size);
}

void json_member_string(struct json_writer *json, const char *key, const char *text)
{
	json_key(json, key);
	json_put_string(json, text);
}

void json_member_integer(struct json_writer *json, const char *key, int64_t value)
{
	json_key(json, key);
	json_put_integer(json, value);
}

void json_member_integer_or_null(struct json_writer *json, const char *key, int64_t value)
{
	json_key(json, key);
	if (value == 0)
		json_put_null(json);
	else
		json_put_integer(json, value);
}

void json_member_unsigned(struct json_writer *json, const char *key, uint64_t value)
{
	json_key(json, key);
	json_put_unsigned(json, value);
}

void json_member_real(struct json_writer *json, const char *key, double value)
{
	json_key(json, key);
	json_put_real(json, value);
}

void json_member_bool(struct json_writer *json, const char *key, bool value)
{
	json_key(json, key);
	json_put_bool(json, value);
}

void json_member_object(struct json_writer *json, const char *key)
{
	json_key(json, key);
	json_object_begin(json);
}

void json_member_array(struct json_writer *json, const char *key)
{
	json_key(json, key);
	json_array_begin(json);
}
