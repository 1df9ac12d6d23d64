/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets that the gateway listens on: TCP, a unix socket, or one that systemd opened for it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { LISTENERS_MAX = 8 };

struct listener {
	int fd;
	bool is_unix;
	/* A loopback address, or a unix socket that other users may not connect to. */
	bool is_private;
	char where[300];       /* "127.0.0.1:7070", "/run/heapctl/gateway.sock" */
	char socket_path[108]; /* to remove in the end; "" for none */
};

/*
 * Opens "HOST:PORT", "[V6]:PORT", ":PORT" (every address), "PORT" (loopback), "unix:PATH" or
 * "/PATH". A socket file is made with mode 0600; one that was left behind is replaced, one that
 * a process listens on is not.
 */
MUST_CHECK bool listener_open(const char *address, struct listener *listener, struct error *err);

/* Takes over a socket that listens already. */
MUST_CHECK bool listener_adopt(int fd, struct listener *listener, struct error *err);

/* The number of sockets that systemd passed, from descriptor LISTENER_FIRST_FD on. */
int listener_inherited_count(void);
enum { LISTENER_FIRST_FD = 3 };

/* Removes the socket file, too. */
void listener_close(struct listener *listener);
