/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors to poll that report when the agent's socket may not be found by its name any more.
 *
 * An inotify descriptor becomes readable when the name is gone or its folder has moved. It watches
 * the socket's own file and the folder's, not what other processes make in the folder, so it wakes
 * the agent for nothing else.
 *
 * /proc/thread-self/mountinfo has POLLPRI when the thread's mounts have changed: a file system that
 * is mounted over the folder, or over one above, hides the name and changes no file. poll() takes
 * the event away. Where mounts come and go all the time, it is polled once per
 * FOLDER_WATCH_PAUSE_MS.
 *
 * A user has a few inotify instances, 128 by default, for all processes. An agent takes one only if
 * some are left for others, and a forked child's agent should take none. One thread at a time.
 */
#pragma once

#include <poll.h>

#include "agent/descriptor.h"
#include "agent/folder.h"

enum {
	FOLDER_WATCH_PAUSE_MS = 1000,
	FOLDER_WATCH_POLL_MAX = 2,
};

struct folder_watch {
	int fd;		    /* -1: none */
	uint64_t inode;	    /* of the socket's file, to recognise the descriptor as ours */
	bool has_own_files; /* in the thread's own table of descriptors */
	struct descriptor mounts;
	int64_t mounts_after_ms; /* not polled before */
};

#define FOLDER_WATCH_NONE ((struct folder_watch){ .fd = -1, .mounts = DESCRIPTOR_NONE })

/* Watches the name in the folder instead of what was watched before; none where it cannot. */
void folder_watch_open(struct folder_watch *watch, const struct folder *folder, const char *name,
	uint64_t inode, bool has_own_files);
void folder_watch_close(struct folder_watch *watch);

/* In a forked child: closes the parent's, where that was in a table that both had. */
void folder_watch_close_inherited(const struct folder_watch *own);

bool folder_watch_is_open(const struct folder_watch *watch);

/* Fills `fds`, room for FOLDER_WATCH_POLL_MAX. */
size_t folder_watch_poll_list(const struct folder_watch *watch, int64_t now_ms, struct pollfd *fds);

/* Milliseconds until there is more to poll; -1: there is not. */
int64_t folder_watch_wait_ms(const struct folder_watch *watch, int64_t now_ms);

/* Whether it filled in this descriptor. */
bool folder_watch_has(const struct folder_watch *watch, int fd);

/* Takes what poll has found for it. False when the descriptor is no longer ours. */
bool folder_watch_drain(struct folder_watch *watch, int fd, int64_t now_ms);
