/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static bool too_long(const char *text, struct error *err)
{
	return error_set(err, ERROR_USAGE, "%.200s...: the URL is too long", text);
}

/* A path without a service ("/", "/targets/NAME") gets the default one. */
static bool set_path(
	struct remote_url *url, const char *path, const char *service, struct error *err)
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
						 path, service);
	if (size < 0 || (size_t)size >= sizeof url->path)
		return too_long(path, err);
	snprintf(url->base, sizeof url->base, "%.*s", (int)base, path);
	return true;
}

bool remote_url_parse(
	const char *text, const char *service, struct remote_url *url, struct error *err)
{
	CLEANUP(free_cleanup)
	char *full = xasprintf("%s%s", target_is_url(text) ? "" : "http://", text);
	const char *const authority = strstr(full, "://") + 3;
	const size_t size = strcspn(authority, "/?#");
	CLEANUP(free_cleanup)
	char *server = xstrndup(full, (size_t)(authority - full) + size);
	struct remote_url parsed = { 0 };

	if (!target_parse_url(server, &parsed.target, err) ||
		!set_path(&parsed, authority + size, service, err))
		return false;
	*url = parsed;
	return true;
}

bool remote_url_follow(const struct remote_url *from, const char *location, struct remote_url *url,
	struct error *err)
{
	if (target_is_url(location))
		return remote_url_parse(location, "", url, err);
	struct remote_url there = *from;
	if (location[0] != '/')
		return error_set(err, ERROR_INPUT, "a redirect leads to '%.100s'", location);
	if (!set_path(&there, location, "", err))
		return false;
	*url = there;
	return true;
}
