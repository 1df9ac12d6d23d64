/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/destination_url.h"

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

bool destination_url_check(const char *url, struct error *err)
{
	const char *const host = behind_scheme(url);

	if (has_host(host))
		return refuse_password(host, "--password-file", err);
	/* Without the URL: it may have a password. */
	error_set(err, ERROR_USAGE, "nothing can be sent to this URL");
	return error_hint(err, "write clickhouse://USER@HOST:8123/DATABASE, "
			       "pyroscope://HOST:4040 or otel-pprof://HOST:PORT");
}

bool store_url_check(const char *url, struct error *err)
{
	const char *const host = behind_scheme(url);

	if (has_host(host) && strncmp(url, "clickhouse", strlen("clickhouse")) == 0)
		return refuse_password(host, "--store-password-file", err);
	error_set(err, ERROR_USAGE, "no fleet can be read from this URL");
	return error_hint(err, "write clickhouse://USER@HOST:8123/DATABASE");
}
