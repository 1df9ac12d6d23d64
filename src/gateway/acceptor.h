/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections for the server as long as it has a place for one more; the others wait in the
 * socket's backlog. libmicrohttpd itself would accept and cut off what is above its limit.
 */
#pragma once

#include <microhttpd.h>

#include "base/error.h"
#include "gateway/listener.h"

struct acceptor;

/*
 * Begins on a thread of its own, which hands at most `most` connections at a time to the daemon
 * and ends once stop_fd is readable. The daemon's own limit must be larger by ACCEPTOR_SPARE.
 */
enum { ACCEPTOR_SPARE = 64 };
MUST_CHECK bool acceptor_start(const struct listener *listener, struct MHD_Daemon *daemon,
	unsigned most, int stop_fd, struct acceptor **acceptor, struct error *err);

/* After stop_fd became readable: waits for its end. NULL is fine. */
void acceptor_join(struct acceptor *acceptor);
