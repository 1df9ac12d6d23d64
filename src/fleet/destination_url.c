/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/destination_url.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const schemes[] = { "clickhouse://", "clickhouses://", "pyroscope://",
	"pyroscopes://", "otel-pprof://", "otel-pprofs://" };

static const char *behind_scheme(const char *url)
{
	for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
		if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
			return url + strlen(schemes[i]);
	return NULL;
}

/* `option` takes the file of the password. */
static bool refuse_password(const char *host, const char *option, struct error *err)
{
	const char *const at = memrchr(host, '@', strcspn(host, "/?#"));

	if (at == NULL || memchr(host, ':', (size_t)(at - host)) == NULL)
		return true;
	error_set(err, ERROR_USAGE,
		"the URL has a password, which every user of the machine can see");
	return error_hint(err, "write it into a file for %s", option);
}

static bool has_host(const char *host)
{
	return host != NULL && strcspn(host, "/?#") != 0;
}

/* None is the default; libcurl would say of a wrong one that the URL has no host. */
static bool check_port(const char *host, struct error *err)
{
	const size_t size = strcspn(host, "/?#");
	const char *const at = memrchr(host, '@', size);
	const char *const start = at == NULL ? host : at + 1;
	const char *const colon = memrchr(start, ':', (size_t)(host + size - start));
	unsigned long port = 0;

	if (colon == NULL || memchr(colon, ']', (size_t)(host + size - colon)) != NULL)
		return true;
	const size_t digits = strspn(colon + 1, "0123456789");
	if (digits > 0 && digits <= 5 && colon + 1 + digits == host + size)
		port = strtoul(colon + 1, NULL, 10);
	return (port > 0 && port <= UINT16_MAX) ||
	       error_set(err, ERROR_USAGE, "the port of the URL is no number from 1 to 65535");
}

bool destination_url_check(const char *url, struct error *err)
{
	const char *const host = behind_scheme(url);

	if (has_host(host))
		return check_port(host, err) && refuse_password(host, "--password-file", err);
	/* Without the URL: it may have a password. */
	error_set(err, ERROR_USAGE, "nothing can be sent to this URL");
	return error_hint(err, "write clickhouse://USER@HOST:8123/DATABASE, "
			       "pyroscope://HOST:4040 or otel-pprof://HOST:PORT");
}

bool store_url_check(const char *url, struct error *err)
{
	const char *const host = behind_scheme(url);

	if (has_host(host) && strncmp(url, "clickhouse", strlen("clickhouse")) == 0)
		return check_port(host, err) && refuse_password(host, "--store-password-file", err);
	error_set(err, ERROR_USAGE, "no fleet can be read from this URL");
	return error_hint(err, "write clickhouse://USER@HOST:8123/DATABASE");
}
