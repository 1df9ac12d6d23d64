/* SPDX-License-Identifier: Apache-2.0 */
#include "base/printable.h"

#include <stdint.h>

#include "base/utf8.h"

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

bool printable_is_all(const char *text, size_t size)
{
	for (size_t at = 0; at < size;) {
		const size_t length = plain_length(text + at, size - at);
		if (length == 0)
			return false;
		at += length;
	}
	return true;
}

void printable_append(struct buffer *out, const char *text, size_t size)
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
