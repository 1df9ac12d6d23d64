/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/waiting_clients.h"

#include <poll.h>
#include <stdlib.h>

#include "base/xalloc.h"

void waiting_clients_deinit(struct waiting_clients *clients)
{
	free(clients->fds);
	pthread_mutex_destroy(&clients->mutex);
}

bool waiting_clients_add(struct waiting_clients *clients, int fd)
{
	pthread_mutex_lock(&clients->mutex);
	const bool is_welcome = !clients->is_cancelled;
	if (is_welcome)
		*XAPPEND(clients->fds, clients->count, clients->capacity) = fd;
	pthread_mutex_unlock(&clients->mutex);
	return is_welcome;
}

/* A client sends nothing while it waits for an answer; only a hang-up is an event. */
static bool has_left(int fd)
{
	struct pollfd poller = { .fd = fd, .events = POLLRDHUP };

	return poll(&poller, 1, 0) > 0;
}

bool waiting_clients_have_left(struct waiting_clients *clients)
{
	if (clients == NULL)
		return false;
	pthread_mutex_lock(&clients->mutex);
	size_t at = 0;
	while (at < clients->count && has_left(clients->fds[at]))
		at++;
	clients->is_cancelled = clients->is_cancelled || at == clients->count;
	const bool is_cancelled = clients->is_cancelled;
	pthread_mutex_unlock(&clients->mutex);
	return is_cancelled;
}
