/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One descriptor for a program that owns its event loop: it becomes readable when the agent has
 * something to do, be it a client or a moment that has come. One thread at a time, except
 * embedded_plan.
 */
#pragma once

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/descriptor.h"

enum { EMBEDDED_WATCHED_MAX = 16 };

struct embedded {
	bool is_open;
	struct descriptor epoll;
	struct descriptor timer;
	struct pollfd watched[EMBEDDED_WATCHED_MAX];
	size_t watched_count;
};

MUST_CHECK bool embedded_open(struct embedded *embedded, struct error *err);
void embedded_close(struct embedded *embedded);
bool embedded_is_open(const struct embedded *embedded);

/* From now on these descriptors make it readable. */
void embedded_watch(struct embedded *embedded, const struct pollfd *fds, size_t count);

/* And so does the end of this time-out (milliseconds; 0: at once; -1: none). */
void embedded_plan(const struct embedded *embedded, int64_t timeout_ms);
