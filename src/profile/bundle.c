/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/bundle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/codec.h"

enum {
	BLOCK = 512,
	NAME_BYTES = 100,
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

	for (int i = 0; i < BLOCK; i++)
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

static bool has_name(const unsigned char *header, const char *name)
{
	return strncmp((const char *)header, name, NAME_BYTES) == 0;
}

bool bundle_detect(struct cursor in)
{
	const unsigned char *const header = cursor_take(&in, BLOCK);

	return header != NULL && is_header(header) && has_name(header, BUNDLE_ABOUT);
}

static bool is_zero(const unsigned char *block)
{
	for (int i = 0; i < BLOCK; i++) {
		if (block[i] != 0)
			return false;
	}
	return true;
}

bool bundle_find(struct cursor *in, const char *name, struct cursor *member)
{
	*member = (struct cursor){ 0 };
	for (;;) {
		struct cursor here = *in;
		const unsigned char *const header = cursor_take(in, BLOCK);
		uint64_t size = 0;
		if (header == NULL || is_zero(header))
			return cursor_ok(in);
		if (!is_header(header) || !octal(header + SIZE_AT, SIZE_DIGITS, &size)) {
			cursor_fail(&here, "the bundle is damaged: no header of a member here");
			*in = here;
			return false;
		}
		const unsigned char *const data = cursor_take(in, size);
		if (data == NULL) {
			cursor_fail(&here, "the bundle is truncated in this member");
			*in = here;
			return false;
		}
		if (has_name(header, name) && header[TYPE_AT] == '0') {
			*member = cursor_over(data, size);
			return true;
		}
		cursor_skip(in, (BLOCK - size % BLOCK) % BLOCK);
	}
}

/* The number behind a key of our own JSON, which has it once; 0 when it is not there. */
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
	/* Not a bundle in a bundle. */
	const struct profile_codec *const codec =
		bundle_detect(*member) ? NULL : profile_detect(member);

	if (codec == NULL)
		return error_set(err, ERROR_INPUT,
			BUNDLE_PROFILE " in it is no profile of any known format");
	if (!codec->read(member, profile, err) && cursor_ok(member))
		return error_prefix(err, BUNDLE_PROFILE);
	return cursor_ok(member) || cursor_error(member, BUNDLE_PROFILE, err);
}

bool bundle_read(struct cursor *in, struct profile *profile, struct error *err)
{
	struct cursor about = *in, member = *in;
	struct cursor text, body;

	if (!bundle_find(&member, BUNDLE_PROFILE, &body)) {
		*in = member;
		return false;
	}
	if (body.start == NULL)
		return error_set(err, ERROR_INPUT, "the bundle has no " BUNDLE_PROFILE);
	if (!read_member(&body, profile, err))
		return false;
	if (bundle_find(&about, BUNDLE_ABOUT, &text))
		profile->time_ms = number_behind(&text, "\"time_ms\":");
	cursor_seek(in, (size_t)(in->end - in->start));
	return true;
}

void bundle_append(
	struct buffer *out, const char *name, const void *data, size_t size, int64_t time_ms)
{
	static const char zeros[BLOCK];
	char header[BLOCK] = "";

	snprintf(header, NAME_BYTES, "%s", name);
	snprintf(header + MODE_AT, 8, "%07o", 0600);
	snprintf(header + USER_AT, 8, "%07o", 0);
	snprintf(header + GROUP_AT, 8, "%07o", 0);
	snprintf(header + SIZE_AT, SIZE_DIGITS, "%011" PRIo64, (uint64_t)size);
	snprintf(header + TIME_AT, SIZE_DIGITS, "%011" PRIo64, (uint64_t)(time_ms / 1000));
	header[TYPE_AT] = '0';
	memcpy(header + MAGIC_AT, "ustar\00000", 8);
	snprintf(header + SUM_AT, SUM_BYTES, "%06" PRIo64, checksum((unsigned char *)header));
	header[SUM_AT + 7] = ' ';
	buffer_append(out, header, sizeof header);
	buffer_append(out, data, size);
	buffer_append(out, zeros, (BLOCK - size % BLOCK) % BLOCK);
}

void bundle_finish(struct buffer *out)
{
	static const char zeros[2 * BLOCK];

	buffer_append(out, zeros, sizeof zeros);
}
