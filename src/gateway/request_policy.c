/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request_policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <gnutls/gnutls.h>

#include "base/file.h"
#include "base/xalloc.h"

enum {
	HOST_BYTES = 256,
	TOKEN_MIN_BYTES = 16,
	TOKEN_MAX_BYTES = 4096,
	TOKEN_FILE_BYTES = 64 * 1024,
};

/* Copies the name in "name", "name:port", "[v6]" or "[v6]:port". */
static bool host_name(const char *host, char name[HOST_BYTES])
{
	const bool is_bracketed = *host == '[';
	const char *const begin = is_bracketed ? host + 1 : host;
	const size_t size = strcspn(begin, is_bracketed ? "]" : ":");
	const char *rest = begin + size;

	if (size == 0 || size >= HOST_BYTES)
		return false;
	if (is_bracketed && *rest++ != ']')
		return false;
	if (*rest != '\0' && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")] != '\0'))
		return false;
	memcpy(name, begin, size);
	name[size] = '\0';
	return true;
}

static bool is_localhost(const char *name)
{
	static const char localhost[] = "localhost";
	const size_t size = strlen(name), own = sizeof localhost - 1;

	if (strcasecmp(name, localhost) == 0)
		return true;
	/* Browsers send every name below localhost to this machine without asking DNS. */
	return size > own && name[size - own - 1] == '.' &&
	       strcasecmp(name + size - own, localhost) == 0;
}

bool request_policy_check_host(const char *host, struct error *err)
{
	char name[HOST_BYTES];
	unsigned char address[sizeof(struct in6_addr)];

	if (host == NULL)
		return true;
	if (host_name(host, name) &&
		(is_localhost(name) || inet_pton(AF_INET, name, address) == 1 ||
			inet_pton(AF_INET6, name, address) == 1))
		return true;
	error_set(err, ERROR_DENIED, "this gateway is not called '%.100s'", host);
	return error_hint(err,
		"use its address or localhost; to serve under a name, start it with --token-file");
}

static bool is_scheme_of_ours(const char *url, size_t size)
{
	return (size == 4 && strncasecmp(url, "http", 4) == 0) ||
	       (size == 5 && strncasecmp(url, "https", 5) == 0);
}

/* Whether the URL or origin has exactly this authority: "http://HOST" and then its end or '/'. */
static bool is_of_host(const char *url, const char *host)
{
	const char *const colon = strstr(url, "://");

	if (colon == NULL || host == NULL || !is_scheme_of_ours(url, (size_t)(colon - url)))
		return false;
	const char *const authority = colon + 3;
	const size_t size = strcspn(authority, "/?#");
	return size == strlen(host) && strncasecmp(authority, host, size) == 0;
}

static bool refuse_site(const char *what, struct error *err)
{
	error_set(err, ERROR_DENIED, "%s", what);
	return error_hint(err, "open the gateway's own page, or use a program such as curl");
}

bool request_policy_check_site(
	const struct request_policy_headers *headers, bool is_change, struct error *err)
{
	const char *const site = headers->fetch_site;

	if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0) {
		const bool is_link =
			headers->fetch_mode != NULL && strcmp(headers->fetch_mode, "navigate") == 0;
		if (is_change || !is_link)
			return refuse_site("a page of another site must not request this", err);
		return true;
	}
	if (headers->origin != NULL && !is_of_host(headers->origin, headers->host))
		return refuse_site("the request comes from a page of another origin", err);
	/* Browsers without Sec-Fetch-Site send only the Referer with images and links. */
	if (is_change && site == NULL && headers->referer != NULL &&
		!is_of_host(headers->referer, headers->host))
		return refuse_site("the request was made by a page of another site", err);
	return true;
}

static bool equals_secret(const char *given, size_t given_size, const char *secret)
{
	const size_t size = strlen(secret);
	volatile unsigned difference = given_size != size;

	for (size_t i = 0; i < given_size; i++)
		difference = difference | ((unsigned char)given[i] ^
						  (unsigned char)secret[size == 0 ? 0 : i % size]);
	return difference == 0 && size > 0;
}

bool request_policy_has_token(const char *authorization, const char *token)
{
	if (authorization == NULL)
		return false;
	if (strncasecmp(authorization, "Bearer ", 7) == 0) {
		const char *const given = authorization + 7 + strspn(authorization + 7, " ");
		return equals_secret(given, strlen(given), token);
	}
	if (strncasecmp(authorization, "Basic ", 6) != 0)
		return false;
	char *const encoded = (char *)(uintptr_t)authorization + 6 + strspn(authorization + 6, " ");
	const gnutls_datum_t text = { (unsigned char *)encoded, (unsigned)strlen(encoded) };
	gnutls_datum_t pair = { 0 };
	if (gnutls_base64_decode2(&text, &pair) != 0)
		return false;
	const char *const colon = memchr(pair.data, ':', pair.size);
	const bool ok = colon != NULL &&
			equals_secret(colon + 1,
				pair.size - (size_t)(colon + 1 - (char *)pair.data), token);
	gnutls_free(pair.data);
	return ok;
}

bool request_policy_check_secret(int fd, const char *path, const char *what, struct error *err)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return error_system(err, errno, "%s", path);
	if (S_ISREG(status.st_mode) && (status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
		error_set(err, ERROR_DENIED, "%s: all users of this machine can %s %s", path,
			(status.st_mode & S_IROTH) != 0 ? "read" : "change", what);
		return error_hint(err, "chmod 600 %s", path);
	}
	return true;
}

bool request_policy_read_token(const char *path, char **token, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(fd_cleanup) int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return file_open_failed(path, errno, err);
	if (!request_policy_check_secret(fd, path, "the token", err))
		return false;
	text.limit = TOKEN_FILE_BYTES;
	bool ok = file_read_fd(fd, path, &text, err);
	const char *const line = ok ? buffer_string(&text) : "";
	const size_t size = strcspn(line, "\r\n");
	if (ok && (size < TOKEN_MIN_BYTES || size > TOKEN_MAX_BYTES)) {
		ok = error_set(
			err, ERROR_INPUT, "%s: its first line has %zu characters", path, size);
		error_hint(err,
			"a token has %d to %d: head -c 24 /dev/urandom | base64 | tr +/ -_ >%s",
			TOKEN_MIN_BYTES, TOKEN_MAX_BYTES, path);
	}
	for (size_t i = 0; i < size && ok; i++) {
		/*
		 * Fields of a request lose spaces at their ends, and clients encode other bytes in
		 * different ways.
		 */
		if (line[i] <= ' ' || line[i] > '~')
			ok = error_set(err, ERROR_INPUT,
				"%s: character %zu of the token is a space or not ASCII", path,
				i + 1);
	}
	if (ok)
		*token = xstrndup(line, size);
	return ok;
}
