/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors inside another program's process.
 *
 * A server may close descriptors that it did not open (closefrom) and then get the same numbers
 * for its own files. So the agent keeps its descriptors at high numbers, remembers the device and
 * inode of each, and checks before each use whether the number still refers to that file. It also
 * keeps a list of them, which a forked child uses to close what it inherited.
 *
 * This works only for kinds of files with an inode of their own: sockets, pipes, regular files,
 * memfds; not for eventfd, epoll and the like, which share one. `struct embedded`, below, has
 * another proof for its own.
 *
 * Any thread, each descriptor by one at a time; descriptor_close_inherited by a child after fork.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct descriptor {
	int fd; /* -1: none */
	int slot;
	uint64_t device;
	uint64_t inode;
};

#define DESCRIPTOR_NONE ((struct descriptor){ .fd = -1, .slot = -1 })

/*
 * Takes over `fd`, which is moved to a high number, close-on-exec. On failure it is closed:
 * ERROR_SYSTEM, and ERROR_STATE when the agent has too many already.
 */
MUST_CHECK bool descriptor_own(int fd, struct descriptor *descriptor, struct error *err);

/*
 * Gives the calling thread its own, empty table of descriptors. Then the agent and the program
 * cannot reach each other's: closefrom() does not close the agent's, and a child inherits none of
 * them. False where the kernel has no close_range (before 5.9) or a sandbox forbids it.
 */
bool descriptor_unshare(void);

/* A free high number for the same file, close-on-exec; `fd` itself where there is none. */
int descriptor_move_up(int fd);

/* Whether the number still refers to what was opened. */
bool descriptor_is_ours(const struct descriptor *descriptor);

/* Closes it if it is still ours, and forgets it. */
void descriptor_close(struct descriptor *descriptor);

/*
 * In a child after fork, before an agent begins in it: closes what it inherited from the parent's.
 * Async-signal-safe.
 */
void descriptor_close_inherited(void);

/* The same where the parent's agent had a table of its own: nothing was inherited. */
void descriptor_forget_inherited(void);

/*
 * One descriptor for a program that owns its event loop: it becomes readable when the agent has
 * something to do, for a client or at a deadline. One thread at a time, except embedded_plan.
 *
 * epoll and timerfd have no inode of their own, so the check above cannot distinguish them from
 * those of the program. Two facts prove them: the epoll contains the marker, a socket of ours that
 * has an inode, and it contains the timer; the kernel compares both the number and the file.
 */

enum { EMBEDDED_WATCHED_MAX = 16 };

struct embedded {
	bool is_open;
	int epoll_fd;
	int timer_fd;
	struct descriptor marker; /* in the epoll, without events */
	struct pollfd watched[EMBEDDED_WATCHED_MAX];
	size_t watched_count;
};

MUST_CHECK bool embedded_open(struct embedded *embedded, struct error *err);

/* Closes what is still ours. */
void embedded_close(struct embedded *embedded);

/* Whether it is open, and the program has closed no part of it. */
bool embedded_is_open(const struct embedded *embedded);

/*
 * From now on these descriptors make it readable. This and embedded_plan do nothing when the
 * program has closed the descriptors: the numbers may be its own files by now.
 */
void embedded_watch(struct embedded *embedded, const struct pollfd *fds, size_t count);

/* And so does the end of this timeout (milliseconds; 0: at once; -1: none). */
void embedded_plan(const struct embedded *embedded, int64_t timeout_ms);

/*
 * In a child after fork, before descriptor_close_inherited: closes what the parent's agent had.
 * Async-signal-safe.
 */
void embedded_close_inherited(void);
