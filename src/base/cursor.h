/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded position in foreign bytes, with a sticky first failure.
 *
 * Reading past the end, or an impossible value, yields zero, moves the cursor to its end and
 * remembers where and why; so a parser reads on without a branch per field and checks once. All
 * multi-byte values are little-endian. The bytes are borrowed and never written.
 *
 * The rare cases (failures, long numbers) are functions that take a copy: a cursor in a local
 * variable, whose address is not shared, stays in registers.
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

/* Of a hexadecimal digit; -1 of any other character. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

struct cursor;

/* Where the bytes after the cursor's end come from, when there are more. */
struct cursor_source {
	/*
	 * Moves the end until `wanted` bytes, or all that there are, follow the position. With
	 * `releases` the bytes before the position may not be read any more.
	 */
	void (*extend)(struct cursor *cursor, size_t wanted, bool releases);
};

struct cursor {
	const unsigned char *start;
	const unsigned char *position;
	const unsigned char *end;
	const char *problem;	      /* NULL before the first failure; a constant text */
	size_t problem_offset;	      /* from start */
	struct cursor_source *source; /* NULL: there is nothing after the end */
};

/* `data` may be NULL where `size` is 0: the position is an address in any case, because C defines
 * no arithmetic on NULL. */
static inline struct cursor cursor_over(const void *data, size_t size)
{
	const unsigned char *const start = data == NULL ? (const unsigned char *)"" : data;

	return (struct cursor){ .start = start, .position = start, .end = start + size };
}

static inline bool cursor_ok(const struct cursor *cursor)
{
	return cursor->problem == NULL;
}

static inline size_t cursor_left(const struct cursor *cursor)
{
	return (size_t)(cursor->end - cursor->position);
}

static inline size_t cursor_offset(const struct cursor *cursor)
{
	return (size_t)(cursor->position - cursor->start);
}

/* Remembers the first problem; `problem` must be a constant text. */
void cursor_fail(struct cursor *cursor, const char *problem);

/* Turns the problem into ERROR_INPUT: "NAME: byte 123: PROBLEM". Returns false. */
bool cursor_error(const struct cursor *cursor, const char *name, struct error *err);

/* Whether as many bytes follow the position, or can be had from its source. */
bool cursor_fetch(struct cursor *cursor, uint64_t size);

/*
 * Whether there is more to read. Where there is a source, CURSOR_AHEAD_BYTES follow, or all that
 * there are, and what was read before is released.
 */
enum { CURSOR_AHEAD_BYTES = 2 * 1024 * 1024 };
bool cursor_more_slow(struct cursor *cursor);

static inline bool cursor_more(struct cursor *cursor)
{
	return cursor_left(cursor) >= CURSOR_AHEAD_BYTES || cursor->source == NULL
		       ? cursor_left(cursor) != 0
		       : cursor_more_slow(cursor);
}

/* Steps over `size` bytes and returns where they began; NULL when there are not as many. */
static inline const unsigned char *cursor_take(struct cursor *cursor, uint64_t size)
{
	if (__builtin_expect(size > cursor_left(cursor), false)) {
		struct cursor copy = *cursor;
		const bool has_size = cursor_fetch(&copy, size);
		if (!has_size)
			cursor_fail(&copy, "it ends too early");
		*cursor = copy;
		if (!has_size)
			return NULL;
	}
	const unsigned char *const at = cursor->position;
	cursor->position += size;
	return at;
}

static inline void cursor_skip(struct cursor *cursor, uint64_t size)
{
	(void)cursor_take(cursor, size);
}

/* Moves to an offset from the start. */
void cursor_seek(struct cursor *cursor, uint64_t offset);

static inline uint8_t cursor_u8(struct cursor *cursor)
{
	const unsigned char *const at = cursor_take(cursor, 1);

	return at == NULL ? 0 : *at;
}

static inline uint16_t cursor_u16(struct cursor *cursor)
{
	const unsigned char *const at = cursor_take(cursor, 2);
	uint16_t value = 0;

	if (at != NULL)
		memcpy(&value, at, sizeof value);
	return le16toh(value);
}

static inline uint32_t cursor_u32(struct cursor *cursor)
{
	const unsigned char *const at = cursor_take(cursor, 4);
	uint32_t value = 0;

	if (at != NULL)
		memcpy(&value, at, sizeof value);
	return le32toh(value);
}

static inline uint64_t cursor_u64(struct cursor *cursor)
{
	const unsigned char *const at = cursor_take(cursor, 8);
	uint64_t value = 0;

	if (at != NULL)
		memcpy(&value, at, sizeof value);
	return le64toh(value);
}

/* LEB128, as in DWARF 5 section 7.6 and protobuf's varints. Bits beyond the 64th are dropped. */
uint64_t cursor_uleb_long(struct cursor *cursor);
int64_t cursor_sleb_long(struct cursor *cursor);

static inline uint64_t cursor_uleb(struct cursor *cursor)
{
	if (cursor->position < cursor->end && *cursor->position < 0x80)
		return *cursor->position++;
	struct cursor copy = *cursor;
	const uint64_t value = cursor_uleb_long(&copy);
	*cursor = copy;
	return value;
}

static inline int64_t cursor_sleb(struct cursor *cursor)
{
	const unsigned char *const at = cursor->position;

	/* One byte or two, of seven bits each, of which the highest is the sign. */
	if (cursor_left(cursor) >= 2 && at[0] < 0x80) {
		cursor->position += 1;
		return (at[0] ^ 0x40) - 0x40;
	}
	if (cursor_left(cursor) >= 2 && at[1] < 0x80) {
		cursor->position += 2;
		return (((at[0] & 0x7f) | at[1] << 7) ^ 0x2000) - 0x2000;
	}
	struct cursor copy = *cursor;
	const int64_t value = cursor_sleb_long(&copy);
	*cursor = copy;
	return value;
}

/* A NUL-terminated text; "" on failure. */
const char *cursor_string(struct cursor *cursor);

/* Steps over one that is likely to be short. */
static inline void cursor_skip_string(struct cursor *cursor)
{
	const unsigned char *at = cursor->position;

	while (at < cursor->end && *at != '\0')
		at++;
	if (__builtin_expect(at == cursor->end, false)) {
		struct cursor copy = *cursor;
		cursor_fail(&copy, "a text has no end");
		*cursor = copy;
		return;
	}
	cursor->position = at + 1;
}
