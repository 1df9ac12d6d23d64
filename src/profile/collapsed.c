/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapsed stacks, the input of flame graph scripts: a line for each stack, root first, and its
 * value, whose unit is unknown: it is read as bytes.
 *
 *	main;serve;parse 4096
 *
 * A function that is inlined into the one before it ends in "[inline]", as jeprof writes it.
 * "[no stack]" alone is a stack without locations.
 * Lines that begin with '#' are comments.
 */
#include "profile/readers.h"

#include <math.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "profile/text_profile.h"

enum {
	MAX_NUMBER = 64,
	TRIED_LINES = 16,
};

struct stack_line {
	const char *frames;
	size_t frames_size;
	double value;
};

/* "-12.5", all of it; strtod alone would take "nan" and "0x1p3", too. */
static bool parse_number(const char *text, size_t size, double *value)
{
	static const char digits[] = "0123456789.";
	char copy[MAX_NUMBER];
	char *end = NULL;

	if (size == 0 || size >= sizeof copy)
		return false;
	memcpy(copy, text, size);
	copy[size] = '\0';
	const char *const number = copy[0] == '-' ? copy + 1 : copy;
	if (number[0] < '0' || number[0] > '9' || number[strspn(number, digits)] != '\0')
		return false;
	*value = strtod(copy, &end);
	return *end == '\0';
}

/* Splits at the last blank: names hold blanks, too. */
static bool parse_line(const struct text_line *line, struct stack_line *parsed)
{
	const char *const blank = memrchr(line->text, ' ', line->size);

	if (blank == NULL || memchr(line->text, '\0', line->size) != NULL)
		return false;
	const size_t size = (size_t)(blank - line->text);
	*parsed = (struct stack_line){ .frames = line->text, .frames_size = size };
	return size != 0 && parse_number(blank + 1, line->size - size - 1, &parsed->value);
}

static bool is_empty(const struct text_line *line)
{
	return line->size == 0 || line->text[0] == '#';
}

static bool detect(struct cursor in)
{
	struct text_line line;
	struct stack_line parsed;

	if (text_profile_is_go_count(&in))
		return false;
	for (int i = 0; i < TRIED_LINES && text_line(&in, &line); i++)
		if (!is_empty(&line))
			return parse_line(&line, &parsed);
	return false;
}

struct collapsed_reader {
	struct profile *profile;
	uint32_t *locations;
	size_t capacity;
	struct profile_frame *frames; /* of one location */
	size_t frame_count, frame_capacity;
};

/* Cuts "[inline]" off a name that has more. */
static bool take_inlined(const char *name, size_t *size)
{
	static const char suffix[] = "[inline]";
	const size_t suffix_size = sizeof suffix - 1;

	if (*size <= suffix_size || memcmp(name + *size - suffix_size, suffix, suffix_size) != 0)
		return false;
	*size -= suffix_size;
	return true;
}

/* True when the frame ends its location: it is not inlined. */
static bool add_frame(struct collapsed_reader *reader, const char *name, size_t size)
{
	const bool is_inlined = take_inlined(name, &size);

	*XAPPEND(reader->frames, reader->frame_count, reader->frame_capacity) =
		(struct profile_frame){ .function = string_pool_add_sized(
						&reader->profile->strings, name, size) };
	return !is_inlined;
}

static bool has_no_stack(const struct stack_line *line)
{
	static const char text[] = "[no stack]";

	return line->frames_size == sizeof text - 1 &&
	       memcmp(line->frames, text, sizeof text - 1) == 0;
}

/* From the right, where the leaf is. */
static uint32_t add_stack(struct collapsed_reader *reader, const struct stack_line *line)
{
	struct profile *const profile = reader->profile;
	const char *end = line->frames + line->frames_size;
	size_t depth = 0;

	if (has_no_stack(line))
		return profile_add_stack(profile, reader->locations, 0);
	for (;;) {
		const size_t left = (size_t)(end - line->frames);
		const char *const semicolon = left == 0 ? NULL : memrchr(line->frames, ';', left);
		const char *const begin = semicolon == NULL ? line->frames : semicolon + 1;
		if (add_frame(reader, begin, (size_t)(end - begin)) || semicolon == NULL) {
			*XAPPEND(reader->locations, depth, reader->capacity) =
				profile_add_named(profile, reader->frames, reader->frame_count);
			reader->frame_count = 0;
		}
		if (semicolon == NULL)
			return profile_add_stack(profile, reader->locations, depth);
		end = semicolon;
	}
}

static void read_line(
	struct collapsed_reader *reader, struct cursor *in, const struct text_line *line)
{
	struct profile_sample sample = { .thread = PROFILE_NONE };
	struct stack_line parsed;

	if (is_empty(line)) {
		if (line->size != 0)
			profile_add_comment(reader->profile, line->text, line->size);
		return;
	}
	if (!parse_line(line, &parsed)) {
		in->position = (const unsigned char *)line->text;
		cursor_fail(in, line->is_whole ? "a stack and its value were expected"
					       : TEXT_CUT_STACK_PROBLEM);
		return;
	}
	if (fabs(parsed.value) >= PROFILE_COUNT_LIMIT) {
		in->position = (const unsigned char *)line->text;
		cursor_fail(in, PROFILE_COUNT_PROBLEM);
		return;
	}
	sample.stack = add_stack(reader, &parsed);
	if (reader->profile->stacks[sample.stack].depth > PROFILE_STACK_LIMIT) {
		in->position = (const unsigned char *)line->text;
		cursor_fail(in, PROFILE_STACK_PROBLEM);
		return;
	}
	sample.counters[PROFILE_INUSE_SPACE] = parsed.value;
	profile_add_sample(reader->profile, &sample);
	if (profile_is_full(reader->profile))
		cursor_fail(in, PROFILE_FULL_PROBLEM);
}

static bool read_profile(struct cursor *in, struct profile *profile, struct error *err)
{
	struct collapsed_reader reader = { .profile = profile };
	struct text_line line;

	(void)err;
	profile->kind = PROFILE_HEAP;
	profile->weighting = PROFILE_WEIGHTED;
	while (cursor_more(in) && text_line(in, &line))
		read_line(&reader, in, &line);
	free(reader.locations);
	free(reader.frames);
	return cursor_ok(in);
}

const struct profile_reader collapsed_reader = { detect, read_profile, false };
