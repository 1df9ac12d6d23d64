/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections for the server as long as it has a place for one more; the others wait in the
 * socket's backlog. libmicrohttpd itself would accept and cut off what is above its limit, and it
 * counts a connection only when it begins to serve it, so the places are counted here.
 */
#pragma once

#include <microhttpd.h>

#include "base/error.h"
#include "gateway/listener.h"

struct acceptor;

/*
 * Begins on a thread of its own, which hands at most `most` connections at a time to the daemon
 * and ends once stop_fd is readable. `*taken`, which outlives the daemon, counts those that were
 * handed over, with atomic operations; whoever owns the daemon takes one off when it has closed
 * one.
 */
MUST_CHECK bool acceptor_start(const struct listener *listener, struct MHD_Daemon *daemon,
	unsigned *taken, unsigned most, int stop_fd, struct acceptor **acceptor, struct error *err);

/* After stop_fd became readable: waits for its end. NULL is fine. */
void acceptor_join(struct acceptor *acceptor);
