/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cursor.h"

void cursor_fail(struct cursor *cursor, const char *problem)
{
	if (cursor->problem == NULL) {
		cursor->problem = problem;
		cursor->problem_offset = cursor_offset(cursor);
	}
	cursor->position = cursor->end;
}

bool cursor_error(const struct cursor *cursor, const char *name, struct error *err)
{
	return error_set(err, ERROR_INPUT, "%s: byte %zu: %s", name, cursor->problem_offset,
		cursor->problem);
}

void cursor_seek(struct cursor *cursor, uint64_t offset)
{
	if (cursor->problem != NULL)
		return;
	if (offset > (uint64_t)(cursor->end - cursor->start))
		cursor_fail(cursor, "an offset points past its end");
	else
		cursor->position = cursor->start + offset;
}

uint64_t cursor_uleb_slow(struct cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		const uint8_t byte = cursor_u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0)
			return value;
	}
}

int64_t cursor_sleb(struct cursor *cursor)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte = 0;

	do {
		byte = cursor_u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) != 0);
	if (shift < 64 && (byte & 0x40) != 0)
		value |= ~UINT64_C(0) << shift;
	return (int64_t)value;
}

const char *cursor_string(struct cursor *cursor)
{
	const unsigned char *const begin = cursor->position;
	const unsigned char *const nul = memchr(begin, '\0', cursor_left(cursor));

	if (nul == NULL) {
		cursor_fail(cursor, "a text has no end");
		return "";
	}
	cursor->position = nul + 1;
	return (const char *)begin;
}
