/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One descriptor for a program that owns its event loop: it becomes readable when the agent has
 * something to do, for a client or at a deadline. One thread at a time, except embedded_plan.
 *
 * epoll and timerfd have no inode of their own, so agent/descriptor.h cannot distinguish them from
 * those of the program. Two facts prove them: the epoll contains the marker, a socket of ours that
 * has an inode, and it contains the timer; the kernel compares both the number and the file.
 */
#pragma once

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/descriptor.h"

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
