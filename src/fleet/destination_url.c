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

bool destination_url_check(const char *url, struct error *err)
{
	const char *const host = behind_scheme(url);
	const size_t size = host == NULL ? 0 : strcspn(host, "/?#");
	const char *const at = host == NULL ? NULL : memrchr(host, '@', size);

	/* Without the URL: it may have a password. */
	if (size == 0) {
		error_set(err, ERROR_USAGE, "nothing can be sent to this URL");
		return error_hint(err, "write clickhouse://USER@HOST:8123/DATABASE, "
				       "pyroscope://HOST:4040 or otel-pprof://HOST:PORT");
	}
	if (at == NULL || memchr(host, ':', (size_t)(at - host)) == NULL)
		return true;
	error_set(err, ERROR_USAGE,
		"the URL has a password, which every user of the machine can see");
	return error_hint(err, "write it into a file for --password-file");
}
