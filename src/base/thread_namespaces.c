/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread_namespaces.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { PATH_BYTES = 64 };

/* False when it cannot be seen, too. */
static bool has_other_namespace(pid_t thread, const char *own, const char *of_children)
{
	char path[PATH_BYTES];
	struct stat ours, theirs;

	snprintf(path, sizeof path, "/proc/self/ns/%s", of_children);
	if (stat(path, &ours) != 0)
		return false;
	snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)thread, own);
	if (stat(path, &ours) != 0)
		return false;
	snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)thread, of_children);
	/* One without a process yet is not shown. */
	return stat(path, &theirs) == 0 ? theirs.st_ino != ours.st_ino : errno == ENOENT;
}

bool thread_may_start_threads(pid_t thread)
{
	return !has_other_namespace(thread, "pid", "pid_for_children") &&
	       !has_other_namespace(thread, "time", "time_for_children");
}
