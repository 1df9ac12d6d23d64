/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/bundle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/readers.h"
#include "profile/tar.h"

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
