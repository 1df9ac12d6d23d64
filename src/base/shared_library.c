/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shared_library.h"

#include <dlfcn.h>
#include <string.h>

#if HEAPCTL_IS_STATIC

bool shared_library_open(
	const char *name, const char *package, void **library_ret, struct error *err)
{
	(void)package;
	(void)library_ret;
	error_set(err, ERROR_UNSUPPORTED, "this heapctl is linked statically and cannot open %s",
		name);
	return error_hint(err, "install a package of heapctl");
}

#else

/* Of the reason as glibc words it, and with what musl puts in front. */
static const char *skip_words_of_musl(const char *reason)
{
	static const char words[] = "Error loading shared library ";

	return reason + (strncmp(reason, words, sizeof words - 1) == 0 ? sizeof words - 1 : 0);
}

bool shared_library_open(
	const char *name, const char *package, void **library_ret, struct error *err)
{
	void *const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	const char *const reason = library == NULL ? skip_words_of_musl(dlerror()) : "";

	if (library == NULL && strncmp(reason, name, strlen(name)) == 0 &&
		strstr(reason, "No such file") != NULL) {
		error_set(err, ERROR_UNSUPPORTED, "%s is missing", name);
		return error_hint(err, "install it: apt install %s", package);
	}
	if (library == NULL) {
		/* The reason begins with the file that it is about, which may be one that it needs.
		 */
		error_set(err, ERROR_UNSUPPORTED, "%s cannot be loaded: %s", name, reason);
		return error_hint(err,
			"install it anew, with what it needs: apt install --reinstall %s", package);
	}
	*library_ret = library;
	return true;
}

#endif
