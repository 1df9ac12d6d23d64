/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdint.h>

size_t utf8_length(const char *text, size_t size)
{
	const unsigned char *const at = (const unsigned char *)text;
	const unsigned char first = at[0];
	unsigned char low = 0x80, high = 0xbf;
	size_t length = 0;

	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		length = 2;
	else if (first >= 0xe0 && first <= 0xef)
		length = 3;
	else if (first >= 0xf0 && first <= 0xf4)
		length = 4;
	if (length == 0 || size < length)
		return 0;
	if (first == 0xe0)
		low = 0xa0;
	if (first == 0xed)
		high = 0x9f;
	if (first == 0xf0)
		low = 0x90;
	if (first == 0xf4)
		high = 0x8f;
	if (at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

/* The character of a well-formed sequence. */
static uint32_t decode(const char *text, size_t length)
{
	static const unsigned char masks[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t character = (unsigned char)text[0] & masks[length];

	for (size_t i = 1; i < length; i++)
		character = character << 6 | ((unsigned char)text[i] & 0x3f);
	return character;
}

static bool is_control(uint32_t character)
{
	return character < 0x20 || (character >= 0x7f && character < 0xa0);
}

/* Direction (Unicode's Bidi_Control), lines and paragraphs, and what is not seen at all. */
static bool is_mark(uint32_t character)
{
	return character == 0x061c || character == 0x200b || character == 0x200e ||
	       character == 0x200f || (character >= 0x2028 && character <= 0x202e) ||
	       (character >= 0x2060 && character <= 0x2069) || character == 0xfeff;
}

/* The length of what is printed as it is at `text`; 0 where nothing is. */
static size_t plain_length(const char *text, size_t size)
{
	const size_t length = utf8_length(text, size);

	if (length == 0)
		return 0;
	const uint32_t character = decode(text, length);
	return is_control(character) || is_mark(character) ? 0 : length;
}

static bool is_printable_ascii(char c)
{
	return c >= ' ' && c <= '~';
}

bool utf8_is_printable(const char *text, size_t size)
{
	for (size_t at = 0; at < size;) {
		const size_t length =
			is_printable_ascii(text[at]) ? 1 : plain_length(text + at, size - at);
		if (length == 0)
			return false;
		at += length;
	}
	return true;
}

void utf8_append_printable(struct buffer *out, const char *text, size_t size)
{
	for (size_t at = 0; at < size;) {
		const size_t plain = plain_length(text + at, size - at);
		const size_t length = utf8_length(text + at, size - at);
		if (plain != 0)
			buffer_append(out, text + at, plain);
		else if (length < 2)
			buffer_printf(out, "\\x%02x", (unsigned char)text[at]);
		else
			buffer_printf(out, "\\u%04x", decode(text + at, length));
		at += length == 0 ? 1 : length;
	}
}

void utf8_append_markup(struct buffer *out, const char *text, size_t size)
{
	for (size_t at = 0; at < size;) {
		const size_t length = utf8_length(text + at, size - at);
		const char c = text[at];
		if (length == 0)
			buffer_append_string(out, UTF8_REPLACEMENT);
		else if (c == '<')
			buffer_append_string(out, "&lt;");
		else if (c == '>')
			buffer_append_string(out, "&gt;");
		else if (c == '&')
			buffer_append_string(out, "&amp;");
		else if (c == '"')
			buffer_append_string(out, "&quot;");
		else if (length == 1 && is_control((unsigned char)c) && c != '\t' && c != '\n')
			buffer_append_char(out, ' ');
		else
			buffer_append(out, text + at, length);
		at += length == 0 ? 1 : length;
	}
}
