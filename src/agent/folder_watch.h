/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices that the name of the agent's socket is gone, or its folder has moved, without looking: an
 * inotify descriptor to poll. It watches the socket's own file and the folder's, not what other
 * processes make in the folder, so it wakes nothing as long as all is well.
 *
 * A user has a few inotify instances, 128 by default, for all processes. An agent takes one only if
 * some are left for others, and a forked child's agent should take none.
 *
 * The serving thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/folder.h"

struct folder_watch {
	int fd;		/* -1: none */
	uint64_t inode; /* of the socket's file, to tell the descriptor from one of the program's */
	bool is_apart;	/* in a table of descriptors of its own */
};

#define FOLDER_WATCH_NONE ((struct folder_watch){ .fd = -1 })

/* Watches the name in the folder instead of what was watched before; none where it cannot. */
void folder_watch_open(struct folder_watch *watch, const struct folder *folder, const char *name,
	uint64_t inode, bool is_apart);
void folder_watch_close(struct folder_watch *watch);

/* In a forked child: closes the parent's, where that was in a table that both had. */
void folder_watch_close_inherited(const struct folder_watch *own);

/* After poll has found something: takes it away. False when it turned out to be nothing of ours. */
bool folder_watch_drain(struct folder_watch *watch);
