/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/filter.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/function_name.h"
#include "base/xalloc.h"

/* Far more than any sensible pattern needs on a function's name. */
enum { MATCH_LIMIT = 1000000, DEPTH_LIMIT = 10000, HEAP_LIMIT_KIB = 65536 };

struct pattern {
	char *text;
	pcre2_code *code;
	pcre2_match_data *match;
	pcre2_match_context *context;
	int problem; /* the first error of a match, 0 for none */
};

bool pattern_new(const char *text, struct pattern **ret, struct error *err)
{
	int code = 0;
	size_t offset = 0;
	pcre2_code *const compiled =
		pcre2_compile((PCRE2_SPTR)text, strlen(text), 0, &code, &offset, NULL);

	if (compiled == NULL) {
		char message[120] = "";
		pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
		return error_set(err, ERROR_USAGE, "invalid pattern '%.100s' at character %zu: %s",
			text, offset + 1, message);
	}
	struct pattern *const pattern = xcalloc(1, sizeof *pattern);
	pattern->text = xstrdup(text);
	pattern->code = compiled;
	pattern->match = pcre2_match_data_create(1, NULL);
	pattern->context = pcre2_match_context_create(NULL);
	pcre2_set_match_limit(pattern->context, MATCH_LIMIT);
	pcre2_set_depth_limit(pattern->context, DEPTH_LIMIT);
	pcre2_set_heap_limit(pattern->context, HEAP_LIMIT_KIB);
	*ret = pattern;
	return true;
}

void pattern_free(struct pattern *pattern)
{
	if (pattern == NULL)
		return;
	pcre2_match_context_free(pattern->context);
	pcre2_match_data_free(pattern->match);
	pcre2_code_free(pattern->code);
	free(pattern->text);
	free(pattern);
}

bool pattern_matches(struct pattern *pattern, const char *text)
{
	const int result = pcre2_match(pattern->code, (PCRE2_SPTR)text, strlen(text), 0, 0,
		pattern->match, pattern->context);

	if (result < 0 && result != PCRE2_ERROR_NOMATCH && pattern->problem == 0)
		pattern->problem = result;
	return result >= 0;
}

bool pattern_check(const struct pattern *pattern, struct error *err)
{
	char message[120] = "";

	if (pattern == NULL || pattern->problem == 0)
		return true;
	pcre2_get_error_message(pattern->problem, (PCRE2_UCHAR *)message, sizeof message);
	error_set(err, ERROR_USAGE, "the pattern '%.100s' takes too long on some names: %s",
		pattern->text, message);
	return error_hint(err, "avoid nested repetitions");
}

enum role { FOCUS, IGNORE, RETAIN, EXCLUDE, SHOW, HIDE, ROLES };

struct tag {
	struct pattern *thread; /* NULL: it is about bytes */
	double min_bytes;
	double max_bytes;
};

struct filter {
	struct pattern *patterns[ROLES];
	struct tag *tags;
	size_t tag_count;
	char *thread;
	struct buffer name; /* for making names */
};

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
	if (end == copy || *bytes < 0)
		return false;
	if (*end == '\0')
		return true;
	const char *const unit = strchr(units, tolower((unsigned char)*end));
	if (unit == NULL)
		return false;
	*bytes = ldexp(*bytes, 10 * (int)(unit - units));
	return end[1] == '\0' || strcasecmp(end + 1, "b") == 0 || strcasecmp(end + 1, "ib") == 0;
}

static bool parse_range(const char *text, struct tag *tag, struct error *err)
{
	const char *const colon = strchr(text, ':');
	const size_t low_size = colon == NULL ? strlen(text) : (size_t)(colon - text);
	const char *const high = colon == NULL ? text : colon + 1;

	if (text[0] != '\0' && parse_bytes(text, low_size, 0, &tag->min_bytes) &&
		parse_bytes(high, strlen(high), INFINITY, &tag->max_bytes))
		return true;
	error_set(err, ERROR_USAGE, "'%.100s' is not a range of sizes", text);
	return error_hint(err, "write bytes=64kb:1mb, bytes=4096: or bytes=:4096");
}

static bool parse_tag(const char *text, struct tag *tag, struct error *err)
{
	if (strncmp(text, "thread=", 7) == 0)
		return pattern_new(text + 7, &tag->thread, err);
	if (strncmp(text, "bytes=", 6) == 0)
		return parse_range(text + 6, tag, err);
	error_set(err, ERROR_USAGE, "invalid tag '%.100s'", text);
	return error_hint(err, "tags are thread=PATTERN and bytes=LOW:HIGH");
}

static bool compile_patterns(
	struct filter *filter, const struct filter_text *text, struct error *err)
{
	const char *const texts[ROLES] = { text->focus, text->ignore, text->retain, text->exclude,
		text->show, text->hide };

	for (int role = 0; role < ROLES; role++) {
		if (texts[role] == NULL || texts[role][0] == '\0')
			continue;
		if (!pattern_new(texts[role], &filter->patterns[role], err))
			return false;
	}
	return true;
}

bool filter_new(const struct filter_text *text, struct filter **ret, struct error *err)
{
	CLEANUP(filter_cleanup) struct filter *filter = xcalloc(1, sizeof *filter);

	buffer_init(&filter->name, &memory_or_exit);
	if (!compile_patterns(filter, text, err))
		return false;
	filter->tags = xcalloc(text->tag_count, sizeof *filter->tags);
	for (size_t i = 0; i < text->tag_count; i++) {
		filter->tag_count++;
		if (!parse_tag(text->tags[i], &filter->tags[i], err))
			return false;
	}
	if (text->thread != NULL)
		filter->thread = xstrdup(text->thread);
	*ret = TAKE(filter);
	return true;
}

void filter_free(struct filter *filter)
{
	if (filter == NULL)
		return;
	for (int role = 0; role < ROLES; role++)
		pattern_free(filter->patterns[role]);
	for (size_t i = 0; i < filter->tag_count; i++)
		pattern_free(filter->tags[i].thread);
	free(filter->tags);
	free(filter->thread);
	buffer_deinit(&filter->name);
	free(filter);
}

bool filter_matches_function(struct pattern *pattern, struct buffer *scratch, const char *function)
{
	buffer_clear(scratch);
	function_name_append_short(scratch, function);
	if (pattern_matches(pattern, buffer_string(scratch)))
		return true;
	if (strpbrk(function, "<>") == NULL)
		return false;
	buffer_clear(scratch);
	function_name_append_bare(scratch, function);
	return pattern_matches(pattern, buffer_string(scratch));
}

static bool matches_frame(
	struct filter *filter, struct pattern *pattern, const struct profile_frame *frame)
{
	if (frame->function[0] != '\0' &&
		filter_matches_function(pattern, &filter->name, frame->function))
		return true;
	if (frame->file[0] == '\0')
		return false;
	buffer_clear(&filter->name);
	buffer_printf(&filter->name, "%s:%u", frame->file, frame->line);
	return pattern_matches(pattern, buffer_string(&filter->name));
}

/* An address as profiles have it in jeprof: what is looked up, in 16 digits. */
static void format_address(const struct profile_location *location, char text[17])
{
	snprintf(text, 17, "%016" PRIx64, location->address - !location->is_exact);
}

static bool matches_location(struct filter *filter, struct pattern *pattern,
	const struct profile *profile, const struct profile_location *location)
{
	char address[17];

	if (location->address != 0) {
		format_address(location, address);
		if (pattern_matches(pattern, address))
			return true;
	}
	for (uint32_t i = 0; i < location->frame_count; i++) {
		if (matches_frame(filter, pattern, &profile->frames[location->first_frame + i]))
			return true;
	}
	return false;
}

static bool matches_outermost(struct filter *filter, struct pattern *pattern,
	const struct profile *profile, const struct profile_location *location)
{
	char address[17];

	if (location->frame_count != 0) {
		const struct profile_frame *const frame =
			&profile->frames[location->first_frame + location->frame_count - 1];
		if (frame->function[0] != '\0')
			return filter_matches_function(pattern, &filter->name, frame->function);
	}
	format_address(location, address);
	return pattern_matches(pattern, address);
}

struct filter_verdict filter_judge(struct filter *filter, const struct profile *profile,
	const struct profile_location *location)
{
	struct pattern *const *const patterns = filter->patterns;
	struct filter_verdict verdict = { 0 };

	if (patterns[FOCUS] != NULL)
		verdict.has_focus = matches_location(filter, patterns[FOCUS], profile, location);
	if (patterns[IGNORE] != NULL)
		verdict.is_ignored = matches_location(filter, patterns[IGNORE], profile, location);
	if (patterns[RETAIN] != NULL &&
		!matches_outermost(filter, patterns[RETAIN], profile, location))
		verdict.is_dropped = true;
	if (patterns[EXCLUDE] != NULL &&
		matches_outermost(filter, patterns[EXCLUDE], profile, location))
		verdict.is_dropped = true;
	return verdict;
}

bool filter_shows(struct filter *filter, const struct profile_frame *frame)
{
	struct pattern *const show = filter->patterns[SHOW];
	struct pattern *const hide = filter->patterns[HIDE];

	return (show == NULL || matches_frame(filter, show, frame)) &&
	       (hide == NULL || !matches_frame(filter, hide, frame));
}

bool filter_has_focus(const struct filter *filter)
{
	return filter->patterns[FOCUS] != NULL;
}

bool filter_drops_empty(const struct filter *filter)
{
	return filter->patterns[RETAIN] != NULL || filter->patterns[EXCLUDE] != NULL ||
	       filter->patterns[SHOW] != NULL || filter->patterns[HIDE] != NULL;
}

bool filter_needs_threads(const struct filter *filter)
{
	if (filter->thread != NULL)
		return true;
	for (size_t i = 0; i < filter->tag_count; i++) {
		if (filter->tags[i].thread != NULL)
			return true;
	}
	return false;
}

bool filter_is_thread(const struct profile_thread *thread, const char *wanted)
{
	char number[24];

	snprintf(number, sizeof number, "%" PRIu64, thread->id);
	return strcmp(wanted, thread->name) == 0 || strcmp(wanted, number) == 0 ||
	       (wanted[0] == 't' && strcmp(wanted + 1, number) == 0);
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

static const struct profile_thread *thread_of(
	const struct profile *profile, const struct profile_sample *sample)
{
	static const struct profile_thread unknown = { .id = UINT64_MAX, .name = "" };

	return sample->thread == PROFILE_NONE ? &unknown : &profile->threads[sample->thread];
}

bool filter_takes_thread(
	struct filter *filter, const struct profile *profile, const struct profile_sample *sample)
{
	return filter->thread == NULL ||
	       (sample->thread != PROFILE_NONE &&
		       filter_is_thread(thread_of(profile, sample), filter->thread));
}

bool filter_takes(
	struct filter *filter, const struct profile *profile, const struct profile_sample *sample)
{
	const char *const thread = thread_of(profile, sample)->name;

	if (!filter_takes_thread(filter, profile, sample))
		return false;
	for (size_t i = 0; i < filter->tag_count; i++) {
		const struct tag *const tag = &filter->tags[i];
		const double size = object_size(sample);
		if (tag->thread != NULL ? !pattern_matches(tag->thread, thread)
					: size < tag->min_bytes || size > tag->max_bytes)
			return false;
	}
	return true;
}

bool filter_check(const struct filter *filter, struct error *err)
{
	for (int role = 0; role < ROLES; role++) {
		if (!pattern_check(filter->patterns[role], err))
			return false;
	}
	for (size_t i = 0; i < filter->tag_count; i++) {
		if (!pattern_check(filter->tags[i].thread, err))
			return false;
	}
	return true;
}
