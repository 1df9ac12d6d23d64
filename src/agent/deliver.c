/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/deliver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/folder.h"
#include "agent/held_signals.h"
#include "base/file.h"

static bool copy(const struct descriptor *file, int fd, const char *name, struct error *err)
{
	if (!descriptor_is_ours(file))
		return error_set(err, ERROR_STATE, "the program closed the profile's file");
	return file_copy_fd(file->fd, "reading the profile", fd, name, err);
}

bool deliver_to_fd(const struct descriptor *file, int fd, struct error *err)
{
	char name[40];
	struct held_signals signals;

	snprintf(name, sizeof name, "descriptor %d", fd);
	held_signals_begin(&signals);
	const bool done = copy(file, fd, name, err);
	held_signals_end(&signals);
	return done;
}

static bool write_into(const struct descriptor *file, const char *open_path, int flags,
	const char *path, struct error *err)
{
	CLEANUP(fd_cleanup) const int fd = open(open_path, O_WRONLY | O_CLOEXEC | flags, 0600);
	struct held_signals signals;

	if (fd < 0)
		return error_system(err, errno, "%s", path);
	held_signals_begin(&signals);
	const bool done = copy(file, fd, path, err);
	held_signals_end(&signals);
	return done;
}

bool deliver_to_path(const struct descriptor *file, const char *path, struct error *err)
{
	char random[FOLDER_NAME_MAX];
	char temporary[4096];
	struct stat status;

	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return write_into(file, path, 0, path, err);
	folder_random_name(random);
	if ((size_t)snprintf(temporary, sizeof temporary, "%s%s", path, random) >= sizeof temporary)
		return error_system(err, ENAMETOOLONG, "%s", path);
	if (write_into(file, temporary, O_CREAT | O_EXCL | O_NOFOLLOW, path, err)) {
		if (rename(temporary, path) == 0)
			return true;
		error_system(err, errno, "%s", path);
	}
	unlink(temporary);
	return false;
}
