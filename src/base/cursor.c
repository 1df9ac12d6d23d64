/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cursor.h"

#include <string.h>

void cursor_fail(struct cursor *cursor, const char *problem)
{
	if (cursor->problem == NULL) {
		cursor->problem = problem;
		cursor->problem_offset = cursor_offset(cursor);
	}
	cursor->position = cursor->end;
}

bool cursor_fetch(struct cursor *cursor, uint64_t size)
{
	if (cursor_left(cursor) < size && cursor->source != NULL && cursor_ok(cursor))
		cursor->source->extend(cursor, (size_t)size, false);
	return cursor_left(cursor) >= size;
}

bool cursor_more_slow(struct cursor *cursor)
{
	/* Twice as much, so that it is not extended again at each line. */
	if (cursor_ok(cursor))
		cursor->source->extend(cursor, 2 * (size_t)CURSOR_AHEAD_BYTES, true);
	return cursor_left(cursor) != 0;
}

bool cursor_error(const struct cursor *cursor, const char *name, struct error *err)
{
	const bool is_cut = cursor->problem_offset >= (size_t)(cursor->end - cursor->start) ||
			    strstr(cursor->problem, "truncated") != NULL ||
			    strstr(cursor->problem, "ends too early") != NULL;

	error_set(err, ERROR_INPUT, "%s: byte %zu: %s", name, cursor->problem_offset,
		cursor->problem);
	return is_cut ? error_hint(err, "a part of it is missing: copy it again, or take another")
		      : false;
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

/* The bits of a LEB128 number and how many there are, the dropped ones included. */
static uint64_t take_leb(struct cursor *cursor, unsigned *bits)
{
	uint64_t value = 0;
	unsigned shift = 0;

	for (const unsigned char *at = cursor->position; at < cursor->end; shift += 7) {
		const uint8_t byte = *at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0) {
			cursor->position = at;
			*bits = shift + 7;
			return value;
		}
	}
	cursor->position = cursor->end;
	cursor_fail(cursor, "it ends too early");
	*bits = 64;
	return 0;
}

uint64_t cursor_uleb_long(struct cursor *cursor)
{
	unsigned bits = 0;

	return take_leb(cursor, &bits);
}

int64_t cursor_sleb_long(struct cursor *cursor)
{
	unsigned bits = 0;
	const uint64_t value = take_leb(cursor, &bits);
	const bool is_negative = bits < 64 && (value >> (bits - 1) & 1) != 0;

	return (int64_t)(is_negative ? value | ~UINT64_C(0) << bits : value);
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
