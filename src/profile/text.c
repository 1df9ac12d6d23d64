/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/text.h"

#include <ctype.h>

bool text_line(struct cursor *in, struct text_line *line)
{
	size_t left = cursor_left(in);

	if (left == 0)
		return false;
	if (left < TEXT_LINE_LIMIT && in->source != NULL) {
		(void)cursor_fetch(in, TEXT_LINE_LIMIT);
		if (!cursor_ok(in))
			return false;
		left = cursor_left(in);
	}
	const char *const text = (const char *)in->position;
	const size_t searched = left < TEXT_LINE_LIMIT ? left : TEXT_LINE_LIMIT;
	const char *const newline = memchr(text, '\n', searched);
	if (newline == NULL && searched < left) {
		cursor_fail(in, "a line of more than a million bytes: this is not a profile");
		return false;
	}

	size_t size = newline == NULL ? left : (size_t)(newline - text);
	in->position += size + (newline != NULL);
	while (size > 0 && isspace((unsigned char)text[size - 1]))
		size--;
	*line = (struct text_line){ .text = text, .size = size, .is_whole = newline != NULL };
	return true;
}

uint64_t text_decimal_slow(struct cursor *in)
{
	const unsigned char *at = in->position;
	uint64_t value = 0;

	for (; at < in->end; at++) {
		const unsigned digit = (unsigned)*at - '0';
		if (digit > 9)
			break;
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, digit, &value)) {
			cursor_fail(in, "a number of more than 64 bits");
			return 0;
		}
	}
	if (at == in->position)
		cursor_fail(in, at == in->end ? "it ends where a number should be: truncated"
					      : "a number was expected");
	else
		in->position = at;
	return value;
}

static int hexadecimal_digit(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint64_t text_hexadecimal(struct cursor *in)
{
	uint64_t value = 0;

	if (cursor_left(in) >= 2 && in->position[0] == '0' && in->position[1] == 'x')
		in->position += 2;
	const unsigned char *const begin = in->position;
	for (; in->position < in->end; in->position++) {
		const int digit = hexadecimal_digit(*in->position);
		if (digit < 0)
			break;
		if (value >> 60 != 0) {
			cursor_fail(in, "an address of more than 64 bits");
			return 0;
		}
		value = value << 4 | (unsigned)digit;
	}
	if (in->position == begin)
		cursor_fail(in, begin == in->end ? "it ends where an address should be: truncated"
						 : "an address was expected");
	return value;
}
