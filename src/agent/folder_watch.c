/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/folder_watch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { SPARE_INSTANCES = 16 };

/* Whether a few more instances could be made, by making them. */
static bool has_spare_instances(void)
{
	int fds[SPARE_INSTANCES];
	int count = 0;

	while (count < SPARE_INSTANCES && (fds[count] = inotify_init1(IN_CLOEXEC)) >= 0)
		count++;
	for (int i = 0; i < count; i++)
		close(fds[i]);
	return count == SPARE_INSTANCES;
}

/*
 * All inotify descriptors look alike to fstat; what they watch is to be seen in /proc. In a
 * shared_watch table the program may have closed the number and use it itself.
 */
static bool watch_is_ours(const struct folder_watch *watch)
{
	char path[64], wanted[40], text[2048];

	if (watch->fd < 0 || watch->has_own_files)
		return watch->fd >= 0;
	snprintf(path, sizeof path, "/proc/thread-self/fdinfo/%d", watch->fd);
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (size < 0)
		return false;
	text[size] = '\0';
	snprintf(wanted, sizeof wanted, " ino:%" PRIx64 " ", watch->inode);
	return strstr(text, "\ninotify wd:") != NULL && strstr(text, wanted) != NULL;
}

/* The one in a shared table, which a forked child inherits. */
static struct folder_watch shared_watch = { .fd = -1 };

static void close_inotify(struct folder_watch *watch)
{
	if (watch->fd == shared_watch.fd)
		shared_watch = FOLDER_WATCH_NONE;
	if (watch_is_ours(watch))
		close(watch->fd);
	watch->fd = -1;
}

void folder_watch_close(struct folder_watch *watch)
{
	close_inotify(watch);
	descriptor_close(&watch->mounts);
	*watch = FOLDER_WATCH_NONE;
}

void folder_watch_close_inherited(const struct folder_watch *own)
{
	struct folder_watch inherited = shared_watch;

	if (inherited.fd >= 0 && inherited.fd != own->fd)
		close_inotify(&inherited);
}

static bool add_watches(int fd, const struct folder *folder, const char *name)
{
	char path[sizeof folder->path + FOLDER_NAME_MAX];

	snprintf(path, sizeof path, "%s/%s", folder->path, name);
	/* Removing a name changes the link count, an attribute; the socket still exists. */
	return inotify_add_watch(fd, path, IN_ATTRIB | IN_MOVE_SELF | IN_DONT_FOLLOW) >= 0 &&
	       inotify_add_watch(fd, folder->path, IN_MOVE_SELF | IN_DONT_FOLLOW | IN_ONLYDIR) >= 0;
}

static void open_inotify(struct folder_watch *watch, const struct folder *folder, const char *name)
{
	const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (fd < 0)
		return;
	if ((watch->has_own_files && !has_spare_instances()) || !add_watches(fd, folder, name)) {
		close(fd);
		return;
	}
	watch->fd = watch->has_own_files ? fd : descriptor_move_up(fd);
	if (!watch->has_own_files)
		shared_watch = *watch;
}

static void open_mounts(struct folder_watch *watch)
{
	struct error ignored;
	const int fd = open("/proc/thread-self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && !descriptor_own(fd, &watch->mounts, &ignored))
		watch->mounts = DESCRIPTOR_NONE;
}

void folder_watch_open(struct folder_watch *watch, const struct folder *folder, const char *name,
	uint64_t inode, bool has_own_files)
{
	folder_watch_close(watch);
	watch->inode = inode;
	watch->has_own_files = has_own_files;
	open_inotify(watch, folder, name);
	open_mounts(watch);
}

bool folder_watch_is_open(const struct folder_watch *watch)
{
	return watch->fd >= 0 || watch->mounts.fd >= 0;
}

size_t folder_watch_poll_list(const struct folder_watch *watch, int64_t now_ms, struct pollfd *fds)
{
	size_t count = 0;

	if (watch->fd >= 0)
		fds[count++] = (struct pollfd){ .fd = watch->fd, .events = POLLIN };
	if (watch->mounts.fd >= 0 && now_ms >= watch->mounts_after_ms)
		fds[count++] = (struct pollfd){ .fd = watch->mounts.fd, .events = POLLPRI };
	return count;
}

int64_t folder_watch_wait_ms(const struct folder_watch *watch, int64_t now_ms)
{
	return watch->mounts.fd >= 0 && watch->mounts_after_ms > now_ms
		       ? watch->mounts_after_ms - now_ms
		       : -1;
}

bool folder_watch_has(const struct folder_watch *watch, int fd)
{
	return fd >= 0 && (fd == watch->fd || fd == watch->mounts.fd);
}

static bool drain_inotify(struct folder_watch *watch)
{
	_Alignas(struct inotify_event) char events[1024];

	if (!watch_is_ours(watch)) {
		close_inotify(watch);
		return false;
	}
	while (read(watch->fd, events, sizeof events) > 0)
		continue;
	return true;
}

bool folder_watch_drain(struct folder_watch *watch, int fd, int64_t now_ms)
{
	if (fd == watch->fd)
		return drain_inotify(watch);
	if (!descriptor_is_ours(&watch->mounts)) {
		descriptor_close(&watch->mounts);
		return false;
	}
	watch->mounts_after_ms = now_ms + FOLDER_WATCH_PAUSE_MS;
	return true;
}
