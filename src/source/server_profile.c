/* SPDX-License-Identifier: Apache-2.0 */
#include "source/server_profile.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/http_client.h"
#include "profile/profile_read.h"
#include "source/symbolize.h"
#include "symbol/demangle.h"

enum { MAX_REDIRECTS = 3 };

bool server_url_detect(const char *text)
{
	if (gateway_url_detect(text))
		return true;
	const char *const colon = strchr(text, ':');
	if (colon == NULL || colon == text || !isdigit((unsigned char)colon[1]))
		return false;
	const char *const after = colon + 1 + strspn(colon + 1, "0123456789");
	return *after == '\0' || *after == '/';
}

static bool too_long(const char *text, struct error *err)
{
	return error_set(err, ERROR_USAGE, "%.200s...: the URL is too long", text);
}

/* A path without a page ("/", "/targets/NAME") gets the default one. */
static bool set_path(struct server_url *url, const char *path, const char *page, struct error *err)
{
	const char *const pprof = strstr(path, "/pprof/");
	size_t base = pprof == NULL ? strcspn(path, "?#") : (size_t)(pprof - path);

	while (pprof == NULL && base > 0 && path[base - 1] == '/')
		base--;
	if (strpbrk(path, " \r\n") != NULL)
		return error_set(
			err, ERROR_USAGE, "%.200s: a blank in a URL is written %%20", path);
	const int size = pprof != NULL ? snprintf(url->path, sizeof url->path, "%s", path)
				       : snprintf(url->path, sizeof url->path, "%.*s%s", (int)base,
						 path, page);
	if (size < 0 || (size_t)size >= sizeof url->path)
		return too_long(path, err);
	return (size_t)snprintf(url->base, sizeof url->base, "%.*s", (int)base, path) <
		       sizeof url->base ||
	       too_long(path, err);
}

bool server_url_parse(const char *text, const char *page, struct server_url *url, struct error *err)
{
	CLEANUP(free_cleanup)
	char *full = xasprintf("%s%s", gateway_url_detect(text) ? "" : "http://", text);
	const char *const authority = strstr(full, "://") + 3;
	const size_t size = strcspn(authority, "/?#");
	CLEANUP(free_cleanup)
	char *server = xstrndup(full, (size_t)(authority - full) + size);
	struct server_url parsed = { 0 };

	if (!target_parse_url(server, &parsed.target, err) ||
		!set_path(&parsed, authority + size, page, err))
		return false;
	*url = parsed;
	return true;
}

static bool follow(const struct server_url *from, const char *location, struct server_url *url,
	struct error *err)
{
	if (gateway_url_detect(location))
		return server_url_parse(location, "", url, err);
	struct server_url there = *from;
	if (location[0] != '/')
		return error_set(err, ERROR_INPUT, "a redirect leads to '%.100s'", location);
	if (!set_path(&there, location, "", err))
		return false;
	*url = there;
	return true;
}

static bool is_service(const char *path, const char *service)
{
	const char *const at = strstr(path, service);

	return at != NULL && strchr("?", at[strlen(service)]) != NULL;
}

/* For a profile over time: the query has its length. */
static bool takes_seconds(const char *path)
{
	return is_service(path, "pprof/profile") || is_service(path, "/pprof/pmuprofile");
}

static char *with_seconds(const char *path, long seconds)
{
	if (!takes_seconds(path) || strstr(path, "seconds=") != NULL)
		return xstrdup(path);
	return xasprintf("%s%cseconds=%ld", path, strchr(path, '?') == NULL ? '?' : '&', seconds);
}

/* GET, following redirects. */
static bool fetch(
	struct server_url *url, const char *path, struct http_answer *answer, struct error *err)
{
	CLEANUP(free_cleanup) char *next = xstrdup(path);

	for (int i = 0;; i++) {
		const struct agent_call call = { .method = "GET", .path = next };
		if (agent_call(&url->target, &call, answer, err))
			return true;
		const char *const location = http_answer_field(answer, "Location");
		/* A URL without a path means the server, so the page of profiles is appended. */
		if (answer->status == 404)
			return error_hint(err,
				"heapctl asked for %.200s; download a profile that is a file",
				next);
		if (answer->status / 100 != 3 || location == NULL || i == MAX_REDIRECTS)
			return false;
		struct server_url there;
		if (!follow(url, location, &there, err))
			return false;
		free(next);
		next = xstrdup(there.path);
		*url = there;
		http_answer_deinit(answer);
	}
}

/*
 * Names from gperftools' page /pprof/symbol: GET says whether there are any ("num_symbols: 1"),
 * POST of "0xa+0xb" answers with a line "0xa<tab>name" for each. /pprof/cmdline names the program.
 */

/* Longer names are shown as they are: undoing them takes more stack than there is here. */
enum { MAX_DEMANGLED = 2048 };

static bool call_page(const struct server_url *url, const char *method, const char *page,
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
static bool has_symbols(const struct server_url *url)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	struct error ignored;

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
	CLEANUP(buffer_deinit) struct buffer readable = BUFFER_OR_EXIT;

	if (size > MAX_DEMANGLED || !demangle_append(linkage_name, &readable))
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

/* Lines of "0xADDRESS<blank>NAMES". An address as the name means that there is no name. */
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

static void read_program(const struct server_url *url, struct profile *profile)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	struct error ignored;

	if (profile->program[0] != '\0' ||
		!call_page(url, "GET", "/pprof/cmdline", NULL, &answer, &ignored))
		return;
	const char *const text = buffer_string(&answer.body);
	CLEANUP(free_cleanup) char *name = xstrndup(text, strcspn(text, "\n"));
	profile->program = profile_intern(profile, name);
}

/* A server without that page is no failure: then names have to come from files. */
static bool add_symbols(const struct server_url *url, const struct server_profile_options *options,
	struct profile *profile, struct error *err)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	CLEANUP(buffer_deinit) struct buffer question = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer page = BUFFER_OR_EXIT;
	size_t count = 0;

	read_program(url, profile);
	if (!symbolize_is_needed(profile) || !has_symbols(url))
		return true;
	CLEANUP(free_cleanup) uint32_t *asked = list_asked(profile, &count);
	for (size_t i = 0; i < count; i++)
		buffer_printf(&question, "%s0x%" PRIx64, i == 0 ? "" : "+",
			lookup_address(&profile->locations[asked[i]]));
	buffer_append_string(&page, "/pprof/symbol");
	append_encoded(&page, "retain", options->retain);
	append_encoded(&page, "exclude", options->exclude);
	if (!call_page(url, "POST", buffer_string(&page), &question, &answer, err))
		return false;
	read_names(profile, asked, count, buffer_string(&answer.body));
	return true;
}

bool server_profile_read(const struct server_url *url, const char *name,
	const struct server_profile_options *options, void (*warn)(const char *format, ...),
	struct profile **ret, struct error *err)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	CLEANUP(free_cleanup) char *path = with_seconds(url->path, options->seconds);
	struct server_url there = *url;

	if (warn != NULL && takes_seconds(path))
		warn("downloading a profile from %s, please wait", name);
	if (!fetch(&there, path, &answer, err) ||
		!profile_read(name, answer.body.data, answer.body.size, NULL, &profile, err))
		return false;
	if (options->wants_names && !add_symbols(url, options, profile, err))
		return false;
	*ret = TAKE(profile);
	return true;
}
