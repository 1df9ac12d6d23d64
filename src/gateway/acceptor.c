/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/xalloc.h"
#include "gateway/thread.h"

enum {
	STACK_BYTES = 256 * 1024,
	/* How long to wait for a place before looking again. */
	FULL_MS = 20,
};

struct acceptor {
	int listen_fd, stop_fd;
	struct MHD_Daemon *daemon;
	struct connection_slots *slots;
	pthread_t thread;
};

static bool is_over(const struct acceptor *acceptor, int patience_ms)
{
	struct pollfd poller = { .fd = acceptor->stop_fd, .events = POLLIN };

	return poll(&poller, 1, patience_ms) > 0;
}

/* Until somebody wants in, or it is over. */
static void await_client(const struct acceptor *acceptor)
{
	struct pollfd pollers[] = {
		{ .fd = acceptor->listen_fd, .events = POLLIN },
		{ .fd = acceptor->stop_fd, .events = POLLIN },
	};

	poll(pollers, 2, -1);
}

static void accept_one(const struct acceptor *acceptor)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof address;
	const int fd = accept4(acceptor->listen_fd, (struct sockaddr *)&address, &size,
		SOCK_CLOEXEC | SOCK_NONBLOCK);

	/* Out of descriptors: they come back when others have left. */
	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		is_over(acceptor, FULL_MS);
	if (fd < 0 || MHD_add_connection(acceptor->daemon, fd, (struct sockaddr *)&address, size) !=
			      MHD_YES)
		connection_slot_cancel(acceptor->slots);
}

static void *work(void *context)
{
	const struct acceptor *const acceptor = context;

	while (!is_over(acceptor, 0)) {
		await_client(acceptor);
		if (connection_slot_reserve(acceptor->slots)) {
			accept_one(acceptor);
		} else {
			connection_slots_cut_slow(acceptor->slots);
			is_over(acceptor, FULL_MS);
		}
	}
	return NULL;
}

bool acceptor_start(const struct listener *listener, struct MHD_Daemon *daemon,
	struct connection_slots *slots, int stop_fd, struct acceptor **ret, struct error *err)
{
	const int flags = fcntl(listener->fd, F_GETFL);

	/* A client that left between poll and accept must not hold it up. */
	if (flags < 0 || fcntl(listener->fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return error_system(err, errno, "%s", listener->where);
	struct acceptor *const acceptor = xmalloc(sizeof *acceptor);
	*acceptor = (struct acceptor){
		.listen_fd = listener->fd,
		.stop_fd = stop_fd,
		.daemon = daemon,
		.slots = slots,
	};
	if (!thread_start(&acceptor->thread, STACK_BYTES, work, acceptor,
		    "a thread that accepts connections", err)) {
		free(acceptor);
		return false;
	}
	*ret = acceptor;
	return true;
}

void acceptor_join(struct acceptor *acceptor)
{
	if (acceptor == NULL)
		return;
	pthread_join(acceptor->thread, NULL);
	free(acceptor);
}
