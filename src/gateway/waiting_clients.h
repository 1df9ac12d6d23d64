/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients that wait for one piece of work: once all of them have left, it is cancelled, and
 * takes no more clients. Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	/* How often a piece of work looks whether its clients have left. */
	WAITING_CLIENTS_LOOK_MS = 200,
};

struct waiting_clients {
	pthread_mutex_t mutex; /* of what follows */
	int *fds;
	size_t count, capacity;
	bool is_cancelled;
};

#define WAITING_CLIENTS_NONE                       \
	(struct waiting_clients)                   \
	{                                          \
		.mutex = PTHREAD_MUTEX_INITIALIZER \
	}

void waiting_clients_deinit(struct waiting_clients *clients);

/*
 * Adds the socket of a client; -1 is one that never leaves. The socket stays open until the work
 * ends. False when the work is cancelled already.
 */
bool waiting_clients_add(struct waiting_clients *clients, int fd);

/* Cancels the work once no client waits for it; true from then on. NULL is never cancelled. */
bool waiting_clients_have_left(struct waiting_clients *clients);
