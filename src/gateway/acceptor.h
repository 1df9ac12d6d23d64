/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepts connections for the server as long as it has a place for one more; the others wait in the
 * socket's backlog. libmicrohttpd itself would accept and cut off what is above its limit, and it
 * counts a connection only when it begins to serve it; so the places are counted in
 * connection_slots.h.
 */
#pragma once

#include <microhttpd.h>

#include "base/error.h"
#include "gateway/listener.h"
#include "gateway/connection_slots.h"

struct acceptor;

/*
 * Begins on a thread of its own, which takes a place for each connection that it hands to the
 * daemon, and ends once stop_fd is readable. The daemon's owner sees to it that those who leave
 * give it back.
 */
MUST_CHECK bool acceptor_start(const struct listener *listener, struct MHD_Daemon *daemon,
	struct connection_slots *slots, int stop_fd, struct acceptor **acceptor, struct error *err);

/* After stop_fd became readable: waits for its end. NULL is fine. */
void acceptor_join(struct acceptor *acceptor);
