/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/agent_library.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char name[] = "libheapctl.so";

/* The folder that the binary is in. */
static bool own_folder(char folder[PATH_MAX], struct error *err)
{
	const ssize_t size = readlink("/proc/self/exe", folder, PATH_MAX - 1);

	if (size < 0) {
		error_system(err, errno, "/proc/self/exe");
		return error_hint(err, "heapctl needs /proc to find its library: mount it");
	}
	folder[size] = '\0';
	char *const slash = strrchr(folder, '/');
	if (slash != NULL)
		*slash = '\0';
	return true;
}

bool agent_library_find(char path[4096], struct error *err)
{
	static const char *const places[] = {
		".",
		"../agent",		   /* the build tree, seen from src/cli */
		"src/agent",		   /* the same, seen from its top */
		("../" HEAPCTL_LIBDIR),	   /* installed, wherever the prefix was moved to */
		("../../" HEAPCTL_LIBDIR), /* the same, seen from heapctl-net */
		"../lib",
	};
	char folder[PATH_MAX], candidate[2 * PATH_MAX];

	if (!own_folder(folder, err))
		return false;
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		snprintf(candidate, sizeof candidate, "%s/%s/%s", folder, places[i], name);
		char real[PATH_MAX];
		if (realpath(candidate, real) != NULL && access(real, R_OK) == 0) {
			snprintf(path, 4096, "%s", real);
			return true;
		}
	}
	error_set(err, ERROR_NOT_FOUND, "%s is not where it should be, beside %s", name, folder);
	return error_hint(err, "build it, or install heapctl completely");
}
