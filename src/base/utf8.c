/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

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
