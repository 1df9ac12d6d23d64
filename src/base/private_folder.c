/* SPDX-License-Identifier: Apache-2.0 */
#include "base/private_folder.h"

#include <string.h>

/* The mode of a folder with other uses, such as /tmp, must not be changed. */
static bool hint_mode(const char *path, mode_t mode, struct error *err)
{
	const char *const slash = strrchr(path, '/');

	if ((mode & S_ISVTX) == 0 && slash != NULL && strstr(slash, "heapctl") != NULL)
		return error_hint(err, "chmod 700 %s", path);
	return error_hint(err,
		"set HEAPCTL_DIR to a folder of its own, such as %s/heapctl; the agent makes it",
		path);
}

bool private_folder_check(
	const char *path, const struct stat *status, uid_t user, struct error *err)
{
	if (status->st_uid != user) {
		error_set(err, ERROR_DENIED,
			"%s belongs to uid %u, not to uid %u: the agent does not use it", path,
			status->st_uid, user);
		return error_hint(err, "set HEAPCTL_DIR to a folder of that user, mode 0700");
	}
	if ((status->st_mode & 077) != 0) {
		error_set(err, ERROR_USAGE,
			"%s is open to other users (mode %04o): the agent does not use it", path,
			status->st_mode & 07777);
		return hint_mode(path, status->st_mode, err);
	}
	return true;
}
