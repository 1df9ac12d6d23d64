/* SPDX-License-Identifier: Apache-2.0 */
#include "client/target_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/target.h"

static const char http[] = "http://";
static const char https[] = "https://";

bool target_is_url(const char *text)
{
	return strncasecmp(text, http, sizeof http - 1) == 0 ||
	       strncasecmp(text, https, sizeof https - 1) == 0;
}

static bool refuse(const char *url, const char *why, struct error *err)
{
	error_set(err, ERROR_USAGE, "%s: %s", url, why);
	return error_hint(err, "a gateway is http://host:port or http://host:port/targets/NAME");
}

/* Splits "host:port" or "[::1]:port". */
static bool parse_authority(
	const char *url, const char *text, size_t size, struct target *target, struct error *err)
{
	const bool has_brackets = size > 0 && text[0] == '[';
	const char *const close = has_brackets ? memchr(text, ']', size) : NULL;
	const char *const host = has_brackets ? text + 1 : text;
	const char *const end = text + size;

	if (has_brackets && close == NULL)
		return refuse(url, "the ']' is missing", err);
	const char *const after = has_brackets ? close + 1 : memchr(text, ':', size);
	const char *const host_end = has_brackets ? close : after == NULL ? end : after;
	if (host_end == host || (size_t)(host_end - host) >= sizeof target->host)
		return refuse(url, "the host is missing", err);
	snprintf(target->host, sizeof target->host, "%.*s", (int)(host_end - host), host);

	snprintf(target->port, sizeof target->port, "%s", target->use_tls ? "443" : "80");
	if (after == NULL || after == end)
		return true;
	const size_t digits = (size_t)(end - after - 1);
	if (*after != ':' || digits == 0 || digits > 5 || strspn(after + 1, "0123456789") < digits)
		return refuse(url, "the port is no number", err);
	snprintf(target->port, sizeof target->port, "%.*s", (int)digits, after + 1);
	if (atoi(target->port) == 0 || atoi(target->port) > 65535)
		return refuse(url, "there is no such port", err);
	return true;
}

/* "/" or "/targets/NAME": anything else would be a page, not a target. */
static bool parse_prefix(
	const char *url, const char *path, struct target *target, struct error *err)
{
	static const char targets[] = "/targets/";
	size_t size = strlen(path);

	while (size > 0 && path[size - 1] == '/')
		size--;
	if (strcspn(path, "?# ") < strlen(path))
		return refuse(url, "a query has no meaning here", err);
	if (size == 0)
		return true;
	if (size >= sizeof target->prefix)
		return refuse(url, "it is too long", err);
	if (strncmp(path, targets, sizeof targets - 1) != 0 ||
		memchr(path + sizeof targets - 1, '/', size - (sizeof targets - 1)) != NULL)
		return refuse(url, "this path is no target", err);
	snprintf(target->prefix, sizeof target->prefix, "%.*s", (int)size, path);
	return true;
}

static void set_names(struct target *target)
{
	const char *const name = strrchr(target->prefix, '/');

	snprintf(target->label, sizeof target->label, "%.60s:%s%.50s", target->host, target->port,
		target->prefix);
	snprintf(target->file_stem, sizeof target->file_stem, "%.100s",
		name == NULL ? target->host : name + 1);
	for (char *c = target->file_stem; *c != '\0'; c++) {
		if (strchr("/ %:", *c) != NULL)
			*c = '_';
	}
	if (target->file_stem[0] == '.' || target->file_stem[0] == '-')
		target->file_stem[0] = '_';
}

bool target_parse_url(const char *url, struct target *target, struct error *err)
{
	struct target found = { .kind = TARGET_GATEWAY };

	found.use_tls = strncasecmp(url, https, sizeof https - 1) == 0;
	const char *const authority = url + (found.use_tls ? sizeof https : sizeof http) - 1;
	const size_t size = strcspn(authority, "/?#");
	if (memchr(authority, '@', size) != NULL)
		return refuse(url, "a token goes into HEAPCTL_TOKEN, not into the URL", err);
	if (!parse_authority(url, authority, size, &found, err) ||
		!parse_prefix(url, authority + size, &found, err))
		return false;
	set_names(&found);
	*target = found;
	return true;
}
