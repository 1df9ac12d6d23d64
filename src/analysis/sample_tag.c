/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/sample_tag.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "64kb": bytes, with a unit of powers of two. */
static bool parse_bytes(const char *text, size_t size, double none, double *bytes)
{
	static const char units[] = "bkmgt";
	char copy[32];
	char *end = NULL;

	*bytes = none;
	if (size == 0)
		return true;
	if (size >= sizeof copy)
		return false;
	memcpy(copy, text, size);
	copy[size] = '\0';
	*bytes = strtod(copy, &end);
	/* strtod takes "nan", "inf", signs and hexadecimal as well. */
	if (end == copy || end != copy + strspn(copy, "0123456789."))
		return false;
	if (*end == '\0')
		return true;
	const char *const unit = strchr(units, tolower((unsigned char)*end));
	if (unit == NULL)
		return false;
	*bytes = ldexp(*bytes, 10 * (int)(unit - units));
	return end[1] == '\0' || strcasecmp(end + 1, "b") == 0 || strcasecmp(end + 1, "ib") == 0;
}

static bool parse_range(const char *text, struct sample_tag *tag, struct error *err)
{
	const char *const colon = strchr(text, ':');
	const size_t low_size = colon == NULL ? strlen(text) : (size_t)(colon - text);
	const char *const high = colon == NULL ? text : colon + 1;

	if (text[0] != '\0' && parse_bytes(text, low_size, 0, &tag->min_bytes) &&
		parse_bytes(high, strlen(high), INFINITY, &tag->max_bytes) &&
		tag->min_bytes <= tag->max_bytes)
		return true;
	error_set(err, ERROR_USAGE, "'%.100s' is not a range of sizes", text);
	return error_hint(err, "write bytes=64kb:1mb, bytes=4096: or bytes=:4096");
}

bool sample_tag_parse(const char *text, struct sample_tag *tag, struct error *err)
{
	*tag = (struct sample_tag){ 0 };
	if (strncmp(text, "thread=", 7) == 0)
		return pattern_new(text + 7, &tag->thread, err);
	if (strncmp(text, "bytes=", 6) == 0)
		return parse_range(text + 6, tag, err);
	error_set(err, ERROR_USAGE, "invalid tag '%.100s'", text);
	return error_hint(err, "tags are thread=PATTERN and bytes=LOW:HIGH");
}

void sample_tag_deinit(struct sample_tag *tag)
{
	pattern_free(tag->thread);
	*tag = (struct sample_tag){ 0 };
}

static double object_size(const struct profile_sample *sample)
{
	static const enum profile_counter objects[] = { PROFILE_INUSE_OBJECTS,
		PROFILE_ALLOC_OBJECTS };
	static const enum profile_counter bytes[] = { PROFILE_INUSE_SPACE, PROFILE_ALLOC_SPACE };

	if (sample->object_bytes != 0)
		return (double)sample->object_bytes;
	for (int i = 0; i < 2; i++) {
		if (sample->counters[objects[i]] > 0)
			return sample->counters[bytes[i]] / sample->counters[objects[i]];
	}
	return 0;
}

bool sample_tag_matches(
	const struct sample_tag *tag, const struct profile_sample *sample, const char *thread)
{
	const double size = object_size(sample);

	return tag->thread != NULL ? pattern_matches(tag->thread, thread)
				   : size >= tag->min_bytes && size <= tag->max_bytes;
}
