/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Bytes that stand for themselves. */
static bool is_plain(unsigned char c)
{
	/* '<' is escaped so that a document can stand inside a script element */
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '<';
}

static void write_escaped(struct buffer *out, const char *text, size_t size)
{
	const unsigned char *at = (const unsigned char *)text;
	const unsigned char *const end = at + size;

	buffer_append_char(out, '"');
	while (at < end) {
		const unsigned char *const plain = at;
		while (at < end && is_plain(*at))
			at++;
		buffer_append(out, plain, (size_t)(at - plain));
		if (at == end)
			break;
		const size_t length = utf8_length((const char *)at, (size_t)(end - at));
		if (length == 0)
			buffer_append_string(out, "\\ufffd");
		else if (length > 1)
			buffer_append(out, at, length);
		else if (*at == '"' || *at == '\\')
			buffer_append(out, (const char[]){ '\\', (char)*at }, 2);
		else if (*at == '\n')
			buffer_append_string(out, "\\n");
		else
			buffer_printf(out, "\\u%04x", *at);
		at += length == 0 ? 1 : length;
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

enum { NUMBER_BYTES = 32 };

/* The digits of the number, which end at `end`; returns the first. */
static char *write_digits(char *end, uint64_t value)
{
	do {
		*--end = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	return end;
}

static void put_digits(struct json_writer *json, bool is_negative, uint64_t value)
{
	char text[NUMBER_BYTES];
	char *const end = text + sizeof text;
	char *first = write_digits(end, value);

	if (is_negative)
		*--first = '-';
	before_value(json);
	buffer_append(json->out, first, (size_t)(end - first));
}

void json_put_integer(struct json_writer *json, int64_t value)
{
	put_digits(json, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void json_put_unsigned(struct json_writer *json, uint64_t value)
{
	put_digits(json, false, value);
}

/*
 * The shorter of "%.15g" and "%.17g" that is the same number when it is read, as the C library
 * writes it.
 */
static void format_real(double value, char text[NUMBER_BYTES])
{
	snprintf(text, NUMBER_BYTES, "%.17g", value);
	if (strtod(text, NULL) == value) {
		char shorter[NUMBER_BYTES];
		snprintf(shorter, sizeof shorter, "%.15g", value);
		if (strtod(shorter, NULL) == value)
			memcpy(text, shorter, sizeof shorter);
	}
	/* A locale may write a decimal comma. */
	for (char *c = text; *c != '\0'; c++) {
		if (*c == ',')
			*c = '.';
	}
}

#ifdef __SIZEOF_INT128__

static const uint64_t powers[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000,
	1000000000, 10000000000, 100000000000, 1000000000000, 10000000000000, 100000000000000,
	1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000,
	10000000000000000000U };

/* `digits` with `decimals` of them behind the point, without zeros at the end. */
static void place_point(uint64_t digits, int decimals, char text[NUMBER_BYTES])
{
	char all[NUMBER_BYTES];
	char *const end = all + sizeof all;

	while (decimals > 0 && digits % 10 == 0) {
		digits /= 10;
		decimals--;
	}
	char *first = write_digits(end, digits);
	while (end - first <= decimals)
		*--first = '0';
	const size_t behind = (size_t)decimals;
	const size_t before = (size_t)(end - first) - behind;
	memcpy(text, first, before);
	text[before] = '.';
	memcpy(text + before + 1, first + before, behind);
	text[before + (behind > 0) + behind] = '\0';
}

/* How many decimals make 17 digits of it. */
static int count_decimals(double value)
{
	int decimals = 16;

	while (decimals > 2 && value >= (double)powers[17 - decimals])
		decimals--;
	for (double least = 1; value < least; least /= 10)
		decimals++;
	return decimals;
}

/* Rounds up what is more than half, and half to the even neighbour. */
static uint64_t round_up(uint64_t whole, bool is_above_half, bool is_half)
{
	return whole + (is_above_half || (is_half && whole % 2 != 0));
}

/*
 * format_real() for the numbers from 0.001 to 1e15, ten times as fast: a report has millions. A
 * number is an integer of 53 bits times a power of two from -62 to -3, so its 17 digits are the
 * upper bits of a product of 117 bits. 15 digits are read as the quotient of two integers that
 * doubles have exactly, which is rounded as strtod() rounds.
 */
static bool format_real_fast(double value, char text[NUMBER_BYTES])
{
	uint64_t bits;

	if (!(value >= 1e-3 && value < 1e15))
		return false;
	memcpy(&bits, &value, sizeof bits);
	const int decimals = count_decimals(value);
	const unsigned shift = 1075 - (unsigned)(bits >> 52);
	const uint64_t integer = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
	const __uint128_t product = (__uint128_t)integer * powers[decimals];
	const uint64_t whole = (uint64_t)(product >> shift);
	const uint64_t rest = (uint64_t)product & ((UINT64_C(1) << shift) - 1);
	const uint64_t half = UINT64_C(1) << (shift - 1);
	if (whole < powers[16] || whole >= powers[17])
		return false;
	const uint64_t lost = whole % 100;
	const uint64_t fewer = round_up(
		whole / 100, lost > 50 || (lost == 50 && rest > 0), lost == 50 && rest == 0);
	if ((double)fewer / (double)powers[decimals - 2] == value)
		place_point(fewer, decimals - 2, text);
	else
		place_point(round_up(whole, rest > half, rest == half), decimals, text);
	return true;
}

#else

static bool format_real_fast(double value, char text[NUMBER_BYTES])
{
	(void)value;
	(void)text;
	return false;
}

#endif

void json_put_real(struct json_writer *json, double value)
{
	char text[NUMBER_BYTES + 1] = "-";
	const double size = fabs(value);

	if (!isfinite(value)) {
		json_put_null(json);
		return;
	}
	if (size < 1e15 && size == (double)(uint64_t)size && (value != 0 || !signbit(value))) {
		put_digits(json, value < 0, (uint64_t)size);
		return;
	}
	if (!format_real_fast(size, text + 1))
		format_real(size, text + 1);
	before_value(json);
	buffer_append_string(json->out, signbit(value) ? text : text + 1);
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
