/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/folder_watch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/descriptor.h"

enum { LEFT_FOR_OTHERS = 16 };

/* Whether a few more instances could be made, by making them. */
static bool others_have_some_left(void)
{
	int fds[LEFT_FOR_OTHERS];
	int count = 0;

	while (count < LEFT_FOR_OTHERS && (fds[count] = inotify_init1(IN_CLOEXEC)) >= 0)
		count++;
	for (int i = 0; i < count; i++)
		close(fds[i]);
	return count == LEFT_FOR_OTHERS;
}

/*
 * All inotify descriptors look alike to fstat; what they watch is to be seen in /proc. In a shared
 * table the program may have closed the number and use it itself.
 */
static bool is_ours(const struct folder_watch *watch)
{
	char path[64], wanted[40], text[2048];

	if (watch->fd < 0 || watch->is_apart)
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
static struct folder_watch shared = { .fd = -1 };

void folder_watch_close(struct folder_watch *watch)
{
	if (watch->fd == shared.fd)
		shared = FOLDER_WATCH_NONE;
	if (is_ours(watch))
		close(watch->fd);
	*watch = FOLDER_WATCH_NONE;
}

void folder_watch_close_inherited(const struct folder_watch *own)
{
	struct folder_watch inherited = shared;

	if (inherited.fd >= 0 && inherited.fd != own->fd)
		folder_watch_close(&inherited);
}

static bool add(int fd, const struct folder *folder, const char *name)
{
	char path[sizeof folder->path + FOLDER_NAME_MAX];

	snprintf(path, sizeof path, "%s/%s", folder->path, name);
	/* A name that is removed changes the number of names, an attribute; the socket lives on. */
	return inotify_add_watch(fd, path, IN_ATTRIB | IN_MOVE_SELF | IN_DONT_FOLLOW) >= 0 &&
	       inotify_add_watch(fd, folder->path, IN_MOVE_SELF | IN_DONT_FOLLOW | IN_ONLYDIR) >= 0;
}

void folder_watch_open(struct folder_watch *watch, const struct folder *folder, const char *name,
	uint64_t inode, bool is_apart)
{
	folder_watch_close(watch);
	const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0)
		return;
	if ((is_apart && !others_have_some_left()) || !add(fd, folder, name)) {
		close(fd);
		return;
	}
	*watch = (struct folder_watch){
		.fd = is_apart ? fd : descriptor_move_up(fd), .inode = inode, .is_apart = is_apart
	};
	if (!is_apart)
		shared = *watch;
}

bool folder_watch_drain(struct folder_watch *watch)
{
	_Alignas(struct inotify_event) char events[1024];

	if (!is_ours(watch)) {
		*watch = FOLDER_WATCH_NONE;
		return false;
	}
	while (read(watch->fd, events, sizeof events) > 0)
		continue;
	return true;
}
