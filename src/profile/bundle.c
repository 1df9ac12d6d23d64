/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/bundle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/readers.h"

static bool detect(struct cursor in)
{
	return tar_detect(in) &&
	       strncmp((const char *)in.position, BUNDLE_ABOUT, TAR_NAME_BYTES) == 0;
}

bool bundle_find(struct cursor *in, const char *name, struct cursor *found)
{
	struct tar_member member;

	*found = (struct cursor){ 0 };
	while (tar_next(in, &member)) {
		if (member.is_file && strcmp(member.name, name) == 0) {
			*found = member.data;
			return true;
		}
	}
	return cursor_ok(in);
}

/* The number after a key of our own JSON, which has it once; 0 when it is not there. */
static int64_t number_behind(const struct cursor *text, const char *key)
{
	char digits[24] = "";

	if (text->start == NULL)
		return 0;
	const size_t size = (size_t)(text->end - text->start);
	const char *const at = memmem(text->start, size, key, strlen(key));
	if (at == NULL)
		return 0;
	const size_t left = size - (size_t)(at + strlen(key) - (const char *)text->start);
	memcpy(digits, at + strlen(key), left < sizeof digits - 1 ? left : sizeof digits - 1);
	return strtoll(digits, NULL, 10);
}

static bool read_member(struct cursor *member, struct profile *profile, struct error *err)
{
	const struct profile_reader *const format = symbolized_reader.detect(*member)
							    ? &symbolized_reader
							    : profile_reader_find(member);

	if (format == NULL)
		return error_set(
			err, ERROR_INPUT, BUNDLE_PROFILE " is not a profile of any known format");
	if (!format->read(member, profile, err) && cursor_ok(member))
		return error_prefix(err, BUNDLE_PROFILE);
	return cursor_ok(member) || cursor_error(member, BUNDLE_PROFILE, err);
}

bool bundle_check(const struct cursor *about, struct error *err)
{
	const int64_t format = number_behind(about, "\"bundle\":");

	if (format == BUNDLE_FORMAT)
		return true;
	if (format == 0)
		return error_set(
			err, ERROR_INPUT, BUNDLE_ABOUT " is damaged: it has no format number");
	error_set(err, ERROR_INPUT, "it is a bundle of format %" PRId64, format);
	return error_hint(err, "this heapctl reads format %d", BUNDLE_FORMAT);
}

static bool read_profile(struct cursor *in, struct profile *profile, struct error *err)
{
	struct cursor about = *in, member = *in;
	struct cursor text, body;

	if (!bundle_find(&about, BUNDLE_ABOUT, &text)) {
		*in = about;
		return false;
	}
	if (!bundle_check(&text, err))
		return false;
	if (!bundle_find(&member, BUNDLE_PROFILE, &body)) {
		*in = member;
		return false;
	}
	if (body.start == NULL)
		return error_set(err, ERROR_INPUT, "the bundle has no " BUNDLE_PROFILE);
	if (!read_member(&body, profile, err))
		return false;
	/* What follows the profile is for other verbs, but a truncated bundle is refused. */
	if (!tar_check_end(&member)) {
		*in = member;
		return false;
	}
	profile->time_ms = number_behind(&text, "\"time_ms\":");
	cursor_seek(in, (size_t)(in->end - in->start));
	return true;
}

const struct profile_reader bundle_reader = { detect, read_profile, false };

enum {
	/* Places in a header of POSIX' ustar interchange format. */
	MODE_AT = 100,
	USER_AT = 108,
	GROUP_AT = 116,
	SIZE_AT = 124,
	SIZE_DIGITS = 12,
	TIME_AT = 136,
	SUM_AT = 148,
	SUM_BYTES = 8,
	TYPE_AT = 156,
	MAGIC_AT = 257,
};

static uint64_t checksum(const unsigned char *header)
{
	uint64_t sum = 0;

	for (int i = 0; i < TAR_BLOCK; i++)
		sum += i >= SUM_AT && i < SUM_AT + SUM_BYTES ? ' ' : header[i];
	return sum;
}

/* Octal digits up to a blank or NUL. */
static bool octal(const unsigned char *text, size_t size, uint64_t *value)
{
	size_t at = 0;

	*value = 0;
	while (at < size && text[at] == ' ')
		at++;
	if (at == size || text[at] < '0' || text[at] > '7')
		return false;
	for (; at < size && text[at] >= '0' && text[at] <= '7'; at++)
		*value = *value * 8 + (uint64_t)(text[at] - '0');
	return at == size || text[at] == ' ' || text[at] == '\0';
}

static bool is_header(const unsigned char *header)
{
	uint64_t sum = 0;

	return memcmp(header + MAGIC_AT, "ustar", 5) == 0 &&
	       octal(header + SUM_AT, SUM_BYTES, &sum) && sum == checksum(header);
}

bool tar_detect(struct cursor in)
{
	const unsigned char *const header = cursor_take(&in, TAR_BLOCK);

	return header != NULL && is_header(header);
}

static bool is_zero(const unsigned char *block)
{
	for (int i = 0; i < TAR_BLOCK; i++) {
		if (block[i] != 0)
			return false;
	}
	return true;
}

/* Puts the cursor back to `here`, with the problem. */
static bool fail(struct cursor *in, struct cursor here, const char *problem)
{
	cursor_fail(&here, problem);
	*in = here;
	return false;
}

bool tar_next(struct cursor *in, struct tar_member *member)
{
	const struct cursor here = *in;
	const unsigned char *const header = cursor_take(in, TAR_BLOCK);
	uint64_t size = 0, time_s = 0;

	if (header == NULL)
		return fail(in, here, "the archive is truncated: it has no end");
	if (is_zero(header))
		return false;
	if (!is_header(header) || !octal(header + SIZE_AT, SIZE_DIGITS, &size))
		return fail(in, here, "the archive is damaged: no header of a member here");
	const unsigned char *const data = cursor_take(in, size);
	if (data == NULL)
		return fail(in, here, "the archive is truncated in this member");
	if (!octal(header + TIME_AT, SIZE_DIGITS, &time_s))
		time_s = 0;
	*member = (struct tar_member){
		.is_file = header[TYPE_AT] == '0',
		.time_ms = (int64_t)time_s * 1000,
		.data = cursor_over(data, size),
	};
	memcpy(member->name, header, TAR_NAME_BYTES);
	/* The last member may lack its padding. */
	const size_t padding = tar_padding(size);
	cursor_skip(in, padding < cursor_left(in) ? padding : cursor_left(in));
	return true;
}

bool tar_check_end(struct cursor *in)
{
	struct tar_member member;

	while (tar_next(in, &member))
		continue;
	return cursor_ok(in);
}

void tar_header(char header[TAR_BLOCK], const char *name, uint64_t size, int64_t time_ms)
{
	memset(header, 0, TAR_BLOCK);
	snprintf(header, TAR_NAME_BYTES, "%s", name);
	snprintf(header + MODE_AT, 8, "%07o", 0600);
	snprintf(header + USER_AT, 8, "%07o", 0);
	snprintf(header + GROUP_AT, 8, "%07o", 0);
	snprintf(header + SIZE_AT, SIZE_DIGITS, "%011" PRIo64, size);
	snprintf(header + TIME_AT, SIZE_DIGITS, "%011" PRIo64, (uint64_t)(time_ms / 1000));
	header[TYPE_AT] = '0';
	memcpy(header + MAGIC_AT, "ustar\00000", 8);
	snprintf(header + SUM_AT, SUM_BYTES, "%06" PRIo64, checksum((unsigned char *)header));
	header[SUM_AT + 7] = ' ';
}

size_t tar_padding(uint64_t size)
{
	return (size_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

void tar_append(
	struct buffer *out, const char *name, const void *data, size_t size, int64_t time_ms)
{
	static const char zeros[TAR_BLOCK];
	char header[TAR_BLOCK];

	tar_header(header, name, size, time_ms);
	buffer_append(out, header, sizeof header);
	buffer_append(out, data, size);
	buffer_append(out, zeros, tar_padding(size));
}

void tar_finish(struct buffer *out)
{
	static const char zeros[2 * TAR_BLOCK];

	buffer_append(out, zeros, sizeof zeros);
}
