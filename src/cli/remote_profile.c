/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote_profile.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "cli/remote_symbols.h"
#include "cli/remote_url.h"
#include "cli/verb.h"
#include "profile/codec.h"

enum { MOST_REDIRECTS = 3 };

bool remote_profile_is_url(const char *text)
{
	if (target_is_url(text))
		return true;
	const char *const colon = strchr(text, ':');
	if (colon == NULL || colon == text || !isdigit((unsigned char)colon[1]))
		return false;
	const char *const after = colon + 1 + strspn(colon + 1, "0123456789");
	return *after == '\0' || *after == '/';
}

static bool is_service(const char *path, const char *service)
{
	const char *const at = strstr(path, service);

	return at != NULL && strchr("?", at[strlen(service)]) != NULL;
}

/* Profiles of a stretch of time: how long it is to be goes into the query. */
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

/* GET, going where the answer says. `url` becomes the place where the profile was. */
static bool fetch(
	struct remote_url *url, const char *path, struct http_answer *answer, struct error *err)
{
	CLEANUP(free_cleanup) char *next = xstrdup(path);

	for (int i = 0;; i++) {
		const struct agent_call call = { .method = "GET", .path = next };
		if (agent_call(&url->target, &call, answer, err))
			return true;
		const char *const location = http_answer_field(answer, "Location");
		if (answer->status / 100 != 3 || location == NULL || i == MOST_REDIRECTS)
			return false;
		struct remote_url there;
		if (!remote_url_follow(url, location, &there, err))
			return false;
		free(next);
		next = xstrdup(there.path);
		*url = there;
		http_answer_deinit(answer);
		http_answer_init(answer);
	}
}

bool remote_profile_read(const char *text, const struct report_options *options, bool wants_names,
	struct profile **ret, struct error *err)
{
	struct remote_url url;
	CLEANUP(http_answer_cleanup) struct http_answer answer = { 0 };
	CLEANUP(profile_cleanup) struct profile *profile = NULL;

	http_answer_init(&answer);
	if (!remote_url_parse(
		    text, options->is_jeprof ? "/pprof/profile" : "/pprof/heap", &url, err))
		return false;
	CLEANUP(free_cleanup) char *path = with_seconds(url.path, options->seconds);
	if (takes_seconds(path))
		verb_warn("gathering a profile from %s, be patient", text);
	struct remote_url there = url;
	if (!fetch(&there, path, &answer, err) ||
		!profile_read(text, answer.body.data, answer.body.size, NULL, &profile, err))
		return false;
	if (wants_names && !remote_symbols_add(&url, options, profile, err))
		return false;
	*ret = TAKE(profile);
	return true;
}
