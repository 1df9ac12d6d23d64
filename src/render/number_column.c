/* SPDX-License-Identifier: Apache-2.0 */
#include "render/number_column.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void number_column_append(struct buffer *out, uint64_t value)
{
	char text[13];
	size_t length = 0;

	while (value >= 32) {
		text[length++] = digits[32 | (value & 31)];
		value >>= 5;
	}
	text[length++] = digits[value];
	buffer_append(out, text, length);
}

void number_column_append_signed(struct buffer *out, int64_t value)
{
	number_column_append(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}
