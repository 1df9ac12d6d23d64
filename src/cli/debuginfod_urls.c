/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/debuginfod_urls.h"

#include <stddef.h>
#include <string.h>

bool debuginfod_urls_check(const char *urls, struct error *err)
{
	static const char *const schemes[] = { "http://", "https://", "file://" };
	static const char blanks[] = " \t\n";

	const char *at = urls + strspn(urls, blanks);

	/* One at least. */
	do {
		const size_t size = strcspn(at, blanks);
		bool is_known = false;
		for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
			const size_t scheme_size = strlen(schemes[i]);
			is_known |= size > scheme_size && strncmp(at, schemes[i], scheme_size) == 0;
		}
		if (!is_known)
			return error_set(err, ERROR_USAGE,
				"invalid value '%.*s'; use a URL such as "
				"https://debuginfod.debian.net",
				(int)(size < 60 ? size : 60), at);
		at += size;
		at += strspn(at, blanks);
	} while (*at != '\0');
	return true;
}
