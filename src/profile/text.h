/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scanning of profiles that are text: numbers and lines over a bounded cursor, whose sticky
 * failure (see cursor.h) carries the byte offset. A line of more than TEXT_LINE_LIMIT bytes is
 * no text that any profiler wrote, so scanning never runs away on a huge binary file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cursor.h"

enum { TEXT_LINE_LIMIT = 1024 * 1024 };

/* A line without its newline and trailing white space; borrowed from the input. */
struct text_line {
	const char *text;
	size_t size;
	bool is_whole; /* a newline followed it */
};

/*
 * Takes the next line. False at the end of the input, and when it fails for a line without end.
 */
bool text_line(struct cursor *in, struct text_line *line);

/* Whether the input goes on with this text. */
static inline bool text_at(const struct cursor *in, const char *text)
{
	const size_t size = strlen(text);

	return cursor_left(in) >= size && memcmp(in->position, text, size) == 0;
}

static inline bool text_starts(const struct text_line *line, const char *text)
{
	const size_t size = strlen(text);

	return line->size >= size && memcmp(line->text, text, size) == 0;
}

/* The next byte, or '\n' at the end of the input, so that every line looks closed. */
static inline char text_peek(const struct cursor *in)
{
	return in->position < in->end ? (char)*in->position : '\n';
}

static inline void text_skip_blanks(struct cursor *in)
{
	while (in->position < in->end && (*in->position == ' ' || *in->position == '\t'))
		in->position++;
}

/* Steps over `c` when it is next. */
static inline bool text_accept(struct cursor *in, char c)
{
	if (in->position >= in->end || *in->position != (unsigned char)c)
		return false;
	in->position++;
	return true;
}

/* A decimal number; fails when there is none or it needs more than 64 bits. */
uint64_t text_decimal(struct cursor *in);

/* The same for hexadecimal, with or without "0x". */
uint64_t text_hexadecimal(struct cursor *in);

/* The high bit of every byte of `word` that is no hexadecimal digit, if all are ASCII. */
static inline uint64_t text_not_hexadecimal(uint64_t word)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	const uint64_t high = ones * 0x80;
	const uint64_t low7 = word & ~high;
	const uint64_t lower = (word | ones * 0x20) & ~high;
	/* The high bit of each: the byte is at least the character. */
	const uint64_t from_0 = low7 + ones * (0x80 - '0');
	const uint64_t from_colon = low7 + ones * (0x80 - '9' - 1);
	const uint64_t from_a = lower + ones * (0x80 - 'a');
	const uint64_t from_g = lower + ones * (0x80 - 'g');

	return (~((from_0 & ~from_colon) | (from_a & ~from_g)) | word) & high;
}

/* The number that eight hexadecimal digits mean, the first being the lowest byte of `word`. */
static inline uint64_t text_eight_hexadecimals(uint64_t word)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t nibbles = (word & ones * 0x0f) + ((word >> 6) & ones) * 9;

	nibbles = (nibbles << 4 | nibbles >> 8) & UINT64_C(0x00ff00ff00ff00ff);
	nibbles = (nibbles << 8 | nibbles >> 16) & UINT64_C(0x0000ffff0000ffff);
	return (nibbles << 16 | nibbles >> 32) & UINT64_C(0xffffffff);
}

static inline uint64_t text_load(const unsigned char *at)
{
	uint64_t word = 0;

	memcpy(&word, at, sizeof word);
	return le64toh(word);
}

enum { TEXT_HEXADECIMAL_REACH = 16 };

/*
 * The number at `at`, behind "0x" if there was one, whose digits are taken eight at a time:
 * addresses make nine tenths of a profile. Returns where it ends; NULL when that takes a closer
 * look, for it has no digits or 16 and more. TEXT_HEXADECIMAL_REACH bytes must be there.
 */
static inline const unsigned char *text_hexadecimal_at(const unsigned char *at, uint64_t *value)
{
	const uint64_t first = text_load(at);
	const uint64_t first_stop = text_not_hexadecimal(first);

	if (first_stop != 0) {
		const unsigned digits = (unsigned)__builtin_ctzll(first_stop) / 8;
		if (digits == 0)
			return NULL;
		*value = text_eight_hexadecimals(first << (64 - 8 * digits));
		return at + digits;
	}
	const uint64_t second = text_load(at + 8);
	const uint64_t second_stop = text_not_hexadecimal(second);
	if (second_stop == 0)
		return NULL;
	const unsigned digits = (unsigned)__builtin_ctzll(second_stop) / 8;
	*value = text_eight_hexadecimals(first);
	if (digits != 0)
		*value =
			*value << 4 * digits | text_eight_hexadecimals(second << (64 - 8 * digits));
	return at + 8 + digits;
}
