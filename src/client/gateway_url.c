/* SPDX-License-Identifier: Apache-2.0 */
#include "client/gateway_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char http[] = "http://";
static const char https[] = "https://";

bool gateway_url_detect(const char *text)
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
static bool parse_authority(const char *url, const char *text, size_t size,
	struct gateway_url *parts, struct error *err)
{
	const bool has_brackets = size > 0 && text[0] == '[';
	const char *const close = has_brackets ? memchr(text, ']', size) : NULL;
	const char *const host = has_brackets ? text + 1 : text;
	const char *const end = text + size;

	if (has_brackets && close == NULL)
		return refuse(url, "the ']' is missing", err);
	const char *const after = has_brackets ? close + 1 : memchr(text, ':', size);
	const char *const host_end = has_brackets ? close : after == NULL ? end : after;
	if (host_end == host || (size_t)(host_end - host) >= sizeof parts->host)
		return refuse(url, "the host is missing", err);
	snprintf(parts->host, sizeof parts->host, "%.*s", (int)(host_end - host), host);

	snprintf(parts->port, sizeof parts->port, "%s", parts->use_tls ? "443" : "80");
	if (after == NULL || after == end)
		return true;
	const size_t digits = (size_t)(end - after - 1);
	if (*after != ':' || digits == 0 || digits > 5 || strspn(after + 1, "0123456789") < digits)
		return refuse(url, "the port is not a number", err);
	snprintf(parts->port, sizeof parts->port, "%.*s", (int)digits, after + 1);
	if (atoi(parts->port) == 0 || atoi(parts->port) > 65535)
		return refuse(url, "there is no such port", err);
	return true;
}

/* "/" or "/targets/NAME": anything else would be a page, not a target. */
static bool parse_prefix(
	const char *url, const char *path, struct gateway_url *parts, struct error *err)
{
	static const char targets[] = "/targets/";
	size_t size = strlen(path);

	while (size > 0 && path[size - 1] == '/')
		size--;
	if (strcspn(path, "?# ") < strlen(path))
		return refuse(url, "a query has no meaning here", err);
	if (size == 0)
		return true;
	if (size >= sizeof parts->prefix)
		return refuse(url, "it is too long", err);
	if (strncmp(path, targets, sizeof targets - 1) != 0 ||
		memchr(path + sizeof targets - 1, '/', size - (sizeof targets - 1)) != NULL)
		return refuse(url, "this path does not name a target", err);
	snprintf(parts->prefix, sizeof parts->prefix, "%.*s", (int)size, path);
	return true;
}

bool gateway_url_parse(const char *url, struct gateway_url *ret, struct error *err)
{
	struct gateway_url parts = { 0 };

	parts.use_tls = strncasecmp(url, https, sizeof https - 1) == 0;
	const char *const authority = url + (parts.use_tls ? sizeof https : sizeof http) - 1;
	const size_t size = strcspn(authority, "/?#");
	if (memchr(authority, '@', size) != NULL)
		return refuse(url, "a token goes into HEAPCTL_TOKEN, not into the URL", err);
	if (!parse_authority(url, authority, size, &parts, err) ||
		!parse_prefix(url, authority + size, &parts, err))
		return false;
	*ret = parts;
	return true;
}
