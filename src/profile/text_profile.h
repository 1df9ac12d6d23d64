/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the text formats of profilers have in common: stacks as lists of addresses, four counters as
 * "28: 1500 [30: 1600]", unknown lines, and the list of mapped files; and scanning of their text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cursor.h"
#include "profile/profile.h"
#include "base/hash_index.h"

/*
 * Scanning of profiles that are text: numbers and lines over a bounded cursor, whose sticky failure
 * (see cursor.h) carries the byte offset. No profiler writes a line of more than TEXT_LINE_LIMIT
 * bytes, so scanning a huge binary file fails early.
 */

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

/* Whether this text is next in the input. */
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

static inline uint64_t text_load(const unsigned char *at)
{
	uint64_t word = 0;

	memcpy(&word, at, sizeof word);
	return le64toh(word);
}

enum { TEXT_NUMBER_REACH = 16 };

/*
 * The number of at most seven digits at `at`. Returns where it ends; NULL for any other number,
 * which text_decimal_slow reads. TEXT_NUMBER_REACH bytes must be there. All digits are taken at
 * once: a loop's end cannot be predicted, which costs more than the arithmetic.
 */
static inline const unsigned char *text_decimal_at(const unsigned char *at, uint64_t *value)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	const uint64_t nibbles = text_load(at) ^ ones * '0';
	/* The high bit of every byte that is above 9, right up to the first of them. */
	const uint64_t stop = ((nibbles + ones * (0x80 - 10)) | nibbles) & ones * 0x80;

	if (stop == 0 || (stop & 0x80) != 0)
		return NULL;
	const unsigned digits = (unsigned)__builtin_ctzll(stop) / 8;
	const uint64_t eight = nibbles << (64 - 8 * digits);
	/* Every other byte now holds a pair of digits: the first, third, fifth and seventh. */
	const uint64_t pairs = eight * 10 + (eight >> 8);
	const uint64_t mask = UINT64_C(0x000000ff000000ff);
	*value = ((pairs & mask) * (100 + (UINT64_C(1000000) << 32)) +
			 ((pairs >> 16) & mask) * (1 + (UINT64_C(10000) << 32))) >>
		 32;
	return at + digits;
}

/* A decimal number; fails when there is none or it needs more than 64 bits. */
uint64_t text_decimal_slow(struct cursor *in);

static inline uint64_t text_decimal(struct cursor *in)
{
	uint64_t value = 0;
	const unsigned char *const end =
		cursor_left(in) < TEXT_NUMBER_REACH ? NULL : text_decimal_at(in->position, &value);

	if (end == NULL)
		return text_decimal_slow(in);
	in->position = end;
	return value;
}

/* The same for hexadecimal, with or without "0x". */
uint64_t text_hexadecimal(struct cursor *in);

typedef unsigned char text_bytes __attribute__((vector_size(16)));
typedef signed char text_signed_bytes __attribute__((vector_size(16)));
typedef uint16_t text_words __attribute__((vector_size(16)));
typedef unsigned char text_half __attribute__((vector_size(8)));

/* The lower byte of each word, the first one in the lowest byte. */
static inline uint64_t text_lower_bytes(text_words words)
{
	const text_half bytes = __builtin_convertvector(words & 0xff, text_half);

	return text_load((const unsigned char *)&bytes);
}

/* The number of 16 hexadecimal digits, of which the first is in the lowest byte. */
static inline uint64_t text_join_digits(text_bytes digits)
{
	const text_words pairs = ((text_words)digits * 0x1001) >> 8;

	return __builtin_bswap64(text_lower_bytes(pairs));
}

/*
 * The same for up to 15 hexadecimal digits with small letters, after "0x" if there was one, with no
 * letter after them. Addresses make nine tenths of a profile, so one is parsed at once in a vector.
 */
static inline const unsigned char *text_hexadecimal_at(const unsigned char *at, uint64_t *value)
{
	text_bytes text;

	memcpy(&text, at, sizeof text);
	const text_bytes is_letter = (text_bytes)((text_signed_bytes)text > '9');
	const text_bytes digit = text - '0' - (is_letter & ('a' - '0' - 10));
	/* Four bits for each byte, of the first one the lowest: whether it is a digit. */
	const uint64_t digits = text_lower_bytes((text_words)(digit < 16) >> 4);
	/*
	 * Nearly all addresses have twelve digits. Asked as a branch the processor guesses that and
	 * is at the next address before the end of this one is computed.
	 */
	if ((digits & UINT64_C(0xfffffffffffff)) == UINT64_C(0xffffffffffff) && at[12] < 'A') {
		*value = text_join_digits(digit) >> 16;
		return at + 12;
	}
	if ((digits & 1) == 0 || digits == UINT64_MAX)
		return NULL;
	const unsigned bits = (unsigned)__builtin_ctzll(~digits); /* four for each digit */
	*value = text_join_digits(digit & 0xf) >> (64 - bits);
	return at[bits / 4] < 'A' ? at + bits / 4 : NULL;
}

#define TEXT_CUT_STACK_PROBLEM "it ends in the middle of a stack: truncated"

enum { TEXT_PENDING_STACKS = 32 };

struct text_profile {
	struct cursor *in;
	struct profile *profile;
	struct u64_table addresses; /* of all locations */
	uint64_t *stack_addresses;  /* of the stack that is being read */
	size_t depth, depth_capacity;
	uint64_t hash; /* of its addresses */
	/* Stacks that were appended but not looked up, and what was there before their samples. */
	uint64_t pending_hashes[TEXT_PENDING_STACKS];
	size_t pending_count;
	size_t first_sample, first_thread_sample;
	unsigned unknown_lines;
	uint32_t go_location; /* that the last of Go's names belongs to; PROFILE_NONE without one */
	bool has_nameless_go_frames;
};

/* The profile has no locations yet, and gets them through this reader only. */
void text_profile_init(struct text_profile *text, struct cursor *in, struct profile *profile);
void text_profile_deinit(struct text_profile *text);

/*
 * Reads " 0x1 0x2" up to the end of the line, but not the newline: the stack, which may be empty.
 * PROFILE_NONE when it fails.
 */
uint32_t text_profile_stack(struct text_profile *text);

/*
 * The same for a profile of many stacks, which are looked up some at a time, while the memory for
 * that is fetched. Reads what follows the stack in between; the second step must not follow a
 * failure of the first. Its position is for samples only, which get another one if the stack was
 * there already: when the next one is read, and by text_profile_end_stacks at the end.
 */
void text_profile_read_stack(struct text_profile *text);
uint32_t text_profile_add_stack(struct text_profile *text);
void text_profile_end_stacks(struct text_profile *text);

/* Reads "28: 1500 [30: 1600]" and the blanks after it. False when it fails. */
bool text_profile_counters(struct text_profile *text, double counters[PROFILE_COUNTERS]);

/* "28: 1500" for text_profile_counters_at. */
static inline const unsigned char *text_profile_pair_at(
	const unsigned char *at, double *objects, double *bytes)
{
	uint64_t number = 0;

	at = text_decimal_at(at, &number);
	*objects = (double)number;
	if (at == NULL || at[0] != ':' || at[1] != ' ')
		return NULL;
	at = text_decimal_at(at + 2, &number);
	*bytes = (double)number;
	return at;
}

enum { TEXT_COUNTERS_REACH = 4 * TEXT_NUMBER_REACH };

/*
 * The same in the form that profilers write, without blanks after it. Returns where it ends; NULL
 * for any other form. TEXT_COUNTERS_REACH bytes must be there. Inline, so that the counters stay in
 * registers: a store would be waited for.
 */
static inline const unsigned char *text_profile_counters_at(
	const unsigned char *at, double counters[PROFILE_COUNTERS])
{
	static const char nothing[] = " [0: 0]"; /* has been allocated: prof_accum is off */

	at = text_profile_pair_at(
		at, &counters[PROFILE_INUSE_OBJECTS], &counters[PROFILE_INUSE_SPACE]);
	counters[PROFILE_ALLOC_OBJECTS] = counters[PROFILE_ALLOC_SPACE] = 0;
	if (at == NULL || memcmp(at, nothing, sizeof nothing - 1) == 0)
		return at == NULL ? NULL : at + sizeof nothing - 1;
	if (at[0] != ' ' || at[1] != '[')
		return NULL;
	at = text_profile_pair_at(
		at + 2, &counters[PROFILE_ALLOC_OBJECTS], &counters[PROFILE_ALLOC_SPACE]);
	return at == NULL || *at != ']' ? NULL : at + 1;
}

/* Steps over blanks, `c` and blanks; fails with `problem` when something else is there. */
bool text_profile_expect(struct text_profile *text, char c, const char *problem);

/*
 * For all other lines. One that Go writes after a stack names an address of it, as the one before
 * the return address:
 *
 *	#<tab>0x4b3f0b<tab>main.fill+0x6b<tab><tab>/src/main.go:4
 *
 * The names of what is inlined come first, on lines with the same address (runtime/pprof's
 * printStackRecord). The first lines of any other kind are kept as comments of the profile.
 */
void text_profile_unknown_line(struct text_profile *text);

/*
 * Once all is read: names the roots of Go's stacks, which it leaves out. `hides_runtime`: what Go's
 * own profiles of the heap leave out, functions of its runtime at the leaf, is removed.
 */
void text_profile_end_go_names(struct text_profile *text, bool hides_runtime);

/* Whether a text of Go's is next that counts goroutines or threads. */
bool text_profile_is_go_count(const struct cursor *in);

/* Sets the frame's file and line from "/src/parse.c:30", where the text is such a place. */
void text_profile_place(
	struct profile *profile, struct profile_frame *frame, const struct text_line *place);

/*
 * The list of mapped files at the end of a text profile: /proc/PID/maps as it was
 * ("MAPPED_LIBRARIES:", jemalloc and gperftools), or gperftools' own short form with its variable
 * ("build=/dir" and "$build/lib.so"). A line "#build-id START HEX" after a mapping and
 * a line "#process NAME" are our extensions. Like every reader of these formats, this one skips all
 * other lines.
 */

/* Whether the line at the cursor opens the list. */
bool map_section_at(const struct cursor *in);

/* Reads to the end of the input; sets the mappings, the program and the process' name. */
void map_section_read(struct cursor *in, struct profile *profile);

/* The same without an opening line. */
void map_section_read_lines(struct cursor *in, struct profile *profile);
