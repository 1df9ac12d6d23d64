/* SPDX-License-Identifier: Apache-2.0 */
#include "client/stale_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/stream.h"

/* In other folders a name may lead anywhere. */
static int open_private_folder(const char *path, size_t size)
{
	char folder[4096];
	struct stat status;

	if ((size_t)snprintf(folder, sizeof folder, "%.*s", (int)size, path) >= sizeof folder)
		return -1;
	const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) == 0 && (status.st_mode & 077) == 0 &&
		(status.st_uid == geteuid() || geteuid() == 0))
		return fd;
	close(fd);
	return -1;
}

/* An agent's socket listens before it gets its name, so what refuses will never answer. */
static bool nobody_listens(const char *path)
{
	CLEANUP(stream_cleanup) struct stream stream = { .fd = -1 };
	struct error err;

	stream_init(&stream, 0, 0);
	return !stream_connect_unix(&stream, path, &err) && err.errnum == ECONNREFUSED;
}

/* Between bind() and listen() a living agent's refuses too, under a name that begins with a dot. */
static bool may_be_unfinished(const char *name, const struct stat *status)
{
	enum { UNFINISHED_S = 10 };

	return name[0] == '.' &&
	       clock_realtime_ms() / 1000 - status->st_ctim.tv_sec <= UNFINISHED_S;
}

bool stale_socket_remove(const char *path)
{
	const char *const slash = strrchr(path, '/');
	struct stat before, now;

	if (slash == NULL)
		return false;
	CLEANUP(fd_cleanup) const int folder = open_private_folder(path, (size_t)(slash - path));
	const char *const name = slash + 1;
	if (folder < 0)
		return false;
	if (fstatat(folder, name, &before, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT;
	/* Another process may have got the number, and the name, in the meantime. */
	return S_ISSOCK(before.st_mode) && !may_be_unfinished(name, &before) &&
	       nobody_listens(path) && fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	       now.st_ino == before.st_ino && unlinkat(folder, name, 0) == 0;
}
