/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rooted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	MAX_LINKS = 40, /* as the kernel has it */
	MAX_DEPTH = 64,
};

/* The folders from the root to where the walk is, and what is left of the path. */
struct path_walk {
	int fds[MAX_DEPTH];
	size_t depth; /* the root is fds[0] */
	char rest[PATH_MAX];
	unsigned links;
};

static void go_up(struct path_walk *walk)
{
	if (walk->depth > 1)
		close(walk->fds[--walk->depth]);
}

static void walk_end(struct path_walk *walk)
{
	while (walk->depth > 0)
		close(walk->fds[--walk->depth]);
}

/* Puts a link's target in front of the rest of the path. */
static int follow_link(struct path_walk *walk, int fd, const char *rest)
{
	char target[PATH_MAX];
	char joined[PATH_MAX];
	const ssize_t size = readlinkat(fd, "", target, sizeof target);

	if (size < 0)
		return errno;
	if (++walk->links > MAX_LINKS)
		return ELOOP;
	const int length = snprintf(joined, sizeof joined, "%.*s/%s", (int)size, target, rest);
	if (length < 0 || (size_t)length >= sizeof joined || size == sizeof target)
		return ENAMETOOLONG;
	memcpy(walk->rest, joined, (size_t)length + 1);
	while (target[0] == '/' && walk->depth > 1)
		go_up(walk);
	return 0;
}

/* Takes one part of the path. `*fd` is the file once the path is used up. Returns an errno. */
static int take_part(struct path_walk *walk, int flags, int *fd)
{
	char name[NAME_MAX + 1];
	const char *const part = walk->rest + strspn(walk->rest, "/");
	const size_t size = strcspn(part, "/");
	const char *const rest = part + size + strspn(part + size, "/");
	const int here = walk->fds[walk->depth - 1];
	struct stat status;

	if (size > NAME_MAX)
		return ENAMETOOLONG;
	memcpy(name, part, size);
	name[size] = '\0';
	if (size == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		if (size == 2)
			go_up(walk);
		memmove(walk->rest, rest, strlen(rest) + 1);
		if (walk->rest[0] == '\0')
			*fd = openat(walk->fds[walk->depth - 1], ".", flags | O_CLOEXEC);
		return walk->rest[0] == '\0' && *fd < 0 ? errno : 0;
	}
	CLEANUP(fd_cleanup) int found = openat(here, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (found < 0 || fstat(found, &status) != 0)
		return errno;
	if (S_ISLNK(status.st_mode) && *rest == '\0' && (flags & O_NOFOLLOW) != 0)
		return ELOOP;
	if (S_ISLNK(status.st_mode))
		return follow_link(walk, found, rest);
	if (*rest == '\0') {
		*fd = openat(here, name, flags | O_NOFOLLOW | O_CLOEXEC);
		return *fd < 0 ? errno : 0;
	}
	if (!S_ISDIR(status.st_mode))
		return ENOTDIR;
	if (walk->depth == MAX_DEPTH)
		return ENAMETOOLONG;
	walk->fds[walk->depth++] = TAKE_FD(found);
	memmove(walk->rest, rest, strlen(rest) + 1);
	return 0;
}

int rooted_file_walk(const char *root, const char *path, int flags)
{
	struct path_walk walk = { .depth = 1 };
	int failure = 0;
	int fd = -1;

	if (strlen(path) >= sizeof walk.rest) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(walk.rest, path);
	walk.fds[0] = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (walk.fds[0] < 0)
		return -1;
	while (fd < 0 && failure == 0)
		failure = take_part(&walk, flags, &fd);
	walk_end(&walk);
	errno = failure;
	return fd;
}

int rooted_file_open(const char *root, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)flags | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	CLEANUP(fd_cleanup) const int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return -1;
	const int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
	/* EAGAIN: something was renamed meanwhile. EPERM: a filter may answer so. */
	if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EAGAIN))
		return fd;
	return rooted_file_walk(root, path, flags);
}
