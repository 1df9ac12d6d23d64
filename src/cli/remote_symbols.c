/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote_symbols.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/symbolize.h"
#include "base/hash_index.h"
#include "base/xalloc.h"
#include "symbol/demangle.h"

/* Longer names are shown as they are: undoing them takes more stack than there is here. */
enum { LONGEST_DEMANGLED = 2048 };

static bool call_page(const struct remote_url *url, const char *method, const char *page,
	const struct buffer *body, struct http_answer *answer, struct error *err)
{
	CLEANUP(free_cleanup) char *path = xasprintf("%s%s", url->base, page);
	const struct agent_call call = {
		.method = method,
		.path = path,
		.body = body == NULL ? NULL : body->data,
		.body_size = body == NULL ? 0 : body->size,
	};

	return agent_call(&url->target, &call, answer, err);
}

/* Whether the server names addresses. */
static bool has_symbols(const struct remote_url *url)
{
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };
	struct error ignored;

	http_answer_init(&answer);
	if (!call_page(url, "GET", "/pprof/symbol", NULL, &answer, &ignored))
		return false;
	const char *const text = buffer_string(&answer.body);
	const char *const count = strstr(text, "num_symbols:");
	return count != NULL && strtoul(count + strlen("num_symbols:"), NULL, 10) > 0;
}

/* What is looked up for a location: jeprof's leaf is taken as it is, we step back from all. */
static uint64_t lookup_address(const struct profile_location *location)
{
	return location->address - !location->is_exact;
}

static bool is_asked(const struct profile_location *location)
{
	return location->frame_count == 0 && location->address != 0;
}

static void append_encoded(struct buffer *out, const char *key, const char *text)
{
	if (text == NULL || text[0] == '\0')
		return;
	buffer_printf(out, "%c%s=", memchr(out->data, '?', out->size) == NULL ? '?' : '&', key);
	for (; *text != '\0'; text++) {
		if (isalnum((unsigned char)*text) || strchr("-_.!~*'()", *text) != NULL)
			buffer_append_char(out, *text);
		else
			buffer_printf(out, "%%%02x", (unsigned char)*text);
	}
}

static void add_frame(struct profile *profile, const char *name, size_t size)
{
	CLEANUP(free_cleanup) char *linkage_name = xstrndup(name, size);
	CLEANUP(buffer_cleanup) struct buffer readable = { 0 };

	buffer_init(&readable, &memory_or_exit);
	if (size > LONGEST_DEMANGLED || !demangle_append(linkage_name, &readable))
		buffer_append_string(&readable, linkage_name);
	const struct profile_frame frame = {
		.function = buffer_string(&readable),
		.linkage_name = linkage_name,
		.file = "",
	};
	profile_add_frame(profile, &frame);
}

/* The last "--" in the text; NULL when there is none. */
static const char *last_separator(const char *text, size_t size)
{
	for (size_t i = size; i >= 2; i--) {
		if (text[i - 1] == '-' && text[i - 2] == '-')
			return text + i - 2;
	}
	return NULL;
}

/* "outer--inlined--innermost": ours begin with the innermost. */
static void name_location(
	struct profile *profile, struct profile_location *location, const char *names, size_t size)
{
	location->first_frame = (uint32_t)profile->frame_count;
	while (size > 0) {
		const char *const separator = last_separator(names, size);
		const char *const name = separator == NULL ? names : separator + 2;
		add_frame(profile, name, size - (size_t)(name - names));
		location->frame_count++;
		size = separator == NULL ? 0 : (size_t)(separator - names);
	}
}

static int by_address(const void *a, const void *b, void *context)
{
	const struct profile *const profile = context;
	const uint64_t left = lookup_address(&profile->locations[*(const uint32_t *)a]);
	const uint64_t right = lookup_address(&profile->locations[*(const uint32_t *)b]);

	return (left > right) - (left < right);
}

/* Locations without names, by address. */
static uint32_t *list_asked(struct profile *profile, size_t *count)
{
	uint32_t *const asked = xreallocarray(NULL, profile->location_count, sizeof *asked);

	*count = 0;
	for (size_t i = 0; i < profile->location_count; i++) {
		if (is_asked(&profile->locations[i]))
			asked[(*count)++] = (uint32_t)i;
	}
	qsort_r(asked, *count, sizeof *asked, by_address, profile);
	return asked;
}

static void name_address(struct profile *profile, const uint32_t *asked, size_t count,
	uint64_t address, const char *names, size_t size)
{
	size_t low = 0;

	for (size_t high = count; low < high;) {
		const size_t middle = low + (high - low) / 2;
		if (lookup_address(&profile->locations[asked[middle]]) < address)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < count; low++) {
		struct profile_location *const location = &profile->locations[asked[low]];
		if (lookup_address(location) != address)
			break;
		if (location->frame_count == 0)
			name_location(profile, location, names, size);
	}
}

/* Lines of "0xADDRESS<blank>NAMES". A name that is the address again is none. */
static void read_names(
	struct profile *profile, const uint32_t *asked, size_t count, const char *text)
{
	while (*text != '\0') {
		size_t size = strcspn(text, "\r\n");
		char *after = NULL;
		const uint64_t address = strtoull(text, &after, 16);
		const char *const next = text + size + strspn(text + size, "\r\n");
		if (after != text && (*after == ' ' || *after == '\t')) {
			after += strspn(after, " \t");
			size -= (size_t)(after - text);
			if (after < next && size > 0 && strncmp(after, "0x", 2) != 0)
				name_address(profile, asked, count, address, after, size);
		}
		text = next;
	}
}

static void read_program(const struct remote_url *url, struct profile *profile)
{
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };
	struct error ignored;

	http_answer_init(&answer);
	if (profile->program[0] != '\0' ||
		!call_page(url, "GET", "/pprof/cmdline", NULL, &answer, &ignored))
		return;
	const char *const text = buffer_string(&answer.body);
	CLEANUP(free_cleanup) char *name = xstrndup(text, strcspn(text, "\n"));
	profile->program = profile_intern(profile, name);
}

bool remote_symbols_add(const struct remote_url *url, const struct report_options *options,
	struct profile *profile, struct error *err)
{
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };
	CLEANUP(buffer_cleanup) struct buffer question = { 0 };
	CLEANUP(buffer_cleanup) struct buffer page = { 0 };
	size_t count = 0;

	http_answer_init(&answer);
	buffer_init(&question, &memory_or_exit);
	buffer_init(&page, &memory_or_exit);
	read_program(url, profile);
	if (!symbolize_is_needed(profile) || !has_symbols(url))
		return true;
	CLEANUP(free_cleanup) uint32_t *asked = list_asked(profile, &count);
	for (size_t i = 0; i < count; i++)
		buffer_printf(&question, "%s0x%" PRIx64, i == 0 ? "" : "+",
			lookup_address(&profile->locations[asked[i]]));
	buffer_append_string(&page, "/pprof/symbol");
	append_encoded(&page, "retain", options->filter.retain);
	append_encoded(&page, "exclude", options->filter.exclude);
	if (!call_page(url, "POST", buffer_string(&page), &question, &answer, err))
		return false;
	read_names(profile, asked, count, buffer_string(&answer.body));
	return true;
}
