/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/net_program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"

static char **arguments;

void net_program_init(int argc, char **argv)
{
	arguments = xcalloc((size_t)argc + 1, sizeof *arguments);
	memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
}

bool net_program_is_needed(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strstr(argv[i], "https://") != NULL)
			return true;
	}
	return false;
}

bool net_program_become(struct error *err)
{
	static const char *const places[] = {
		"", /* the build tree */
		"/../" HEAPCTL_LIBEXECDIR
		"/heapctl", /* installed, wherever the prefix was moved to */
	};
	char folder[PATH_MAX], path[2 * PATH_MAX];
	const ssize_t size = readlink("/proc/self/exe", folder, sizeof folder - 1);

	if (size < 0) {
		error_system(err, errno, "/proc/self/exe");
		return error_hint(err, "heapctl needs /proc to find heapctl-net: mount it");
	}
	folder[size] = '\0';
	*strrchr(folder, '/') = '\0';
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		snprintf(path, sizeof path, "%s%s/heapctl-net", folder, places[i]);
		execv(path, arguments);
		if (errno != ENOENT)
			return error_system(err, errno, "starting %s", path);
	}
	error_set(err, ERROR_NOT_FOUND, "heapctl-net is not beside %s/heapctl", folder);
	return error_hint(err, "install heapctl with make install, which installs both");
}
