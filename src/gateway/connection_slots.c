/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/connection_slots.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "gateway/gateway.h"

struct connection_slot {
	struct connection_slot *next, **place; /* where it hangs in the list */
	int fd;
	enum connection_state state;
	int64_t since_ms; /* when it entered the state, on the monotonic clock */
};

void connection_slots_init(struct connection_slots *slots, unsigned max)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 < max)
		max = limit.rlim_cur < 2 ? 1 : (unsigned)(limit.rlim_cur / 2);
	*slots = (struct connection_slots){ .max = max };
	pthread_mutex_init(&slots->mutex, NULL);
}

void connection_slots_deinit(struct connection_slots *slots)
{
	pthread_mutex_destroy(&slots->mutex);
}

/*
 * Reserves a slot for a connection that is about to be added to the daemon; false when all are
 * taken.
 */
static bool connection_slot_reserve(struct connection_slots *slots)
{
	pthread_mutex_lock(&slots->mutex);
	const bool has_place = slots->taken < slots->max;
	slots->taken += has_place;
	pthread_mutex_unlock(&slots->mutex);
	return has_place;
}

/* The connection was not added after all. */
static void connection_slot_cancel(struct connection_slots *slots)
{
	pthread_mutex_lock(&slots->mutex);
	slots->taken--;
	pthread_mutex_unlock(&slots->mutex);
}

struct connection_slot *connection_slot_attach(struct connection_slots *slots, int fd)
{
	struct connection_slot *const slot = xmalloc(sizeof *slot);

	*slot = (struct connection_slot){ .fd = fd, .since_ms = clock_monotonic_ms() };
	pthread_mutex_lock(&slots->mutex);
	slot->next = slots->first;
	slot->place = &slots->first;
	if (slot->next != NULL)
		slot->next->place = &slot->next;
	slots->first = slot;
	pthread_mutex_unlock(&slots->mutex);
	return slot;
}

void connection_slot_detach(struct connection_slots *slots, struct connection_slot *slot)
{
	pthread_mutex_lock(&slots->mutex);
	*slot->place = slot->next;
	if (slot->next != NULL)
		slot->next->place = slot->place;
	slots->taken--;
	pthread_mutex_unlock(&slots->mutex);
	free(slot);
}

void connection_slot_enter(
	struct connection_slots *slots, struct connection_slot *slot, enum connection_state state)
{
	pthread_mutex_lock(&slots->mutex);
	slot->state = state;
	slot->since_ms = clock_monotonic_ms();
	pthread_mutex_unlock(&slots->mutex);
}

static int64_t limit_of(const struct connection_slot *slot)
{
	return slot->state == CONNECTION_REQUEST  ? CONNECTION_REQUEST_MS
	       : slot->state == CONNECTION_ANSWER ? CONNECTION_ANSWER_MS
						  : INT64_MAX;
}

/* Closes some of the slow connections. */
static void connection_slots_cut_slow(struct connection_slots *slots)
{
	const int64_t now_ms = clock_monotonic_ms();
	unsigned cleared = 0;

	pthread_mutex_lock(&slots->mutex);
	for (struct connection_slot *slot = slots->first;
		slot != NULL && cleared < CONNECTIONS_CUT_MAX; slot = slot->next) {
		if (now_ms - slot->since_ms <= limit_of(slot))
			continue;
		/* Its thread sees the end of the stream and closes it. */
		shutdown(slot->fd, SHUT_RDWR);
		slot->since_ms = now_ms;
		cleared++;
	}
	pthread_mutex_unlock(&slots->mutex);
}

enum {
	ACCEPTOR_STACK_BYTES = 256 * 1024,
	/* Interval between looks for a free slot. */
	FULL_MS = 20,
};

struct acceptor {
	int listen_fd, stop_fd;
	struct MHD_Daemon *daemon;
	struct connection_slots *slots;
	pthread_t thread;
};

static bool await_stop(const struct acceptor *acceptor, int timeout_ms)
{
	struct pollfd poller = { .fd = acceptor->stop_fd, .events = POLLIN };

	return poll(&poller, 1, timeout_ms) > 0;
}

/* Until a client connects, or the gateway stops. */
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

	/* Out of descriptors: others have to end. */
	if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
		connection_slots_cut_slow(acceptor->slots);
		await_stop(acceptor, FULL_MS);
	}
	if (fd < 0 || MHD_add_connection(acceptor->daemon, fd, (struct sockaddr *)&address, size) !=
			      MHD_YES)
		connection_slot_cancel(acceptor->slots);
}

static void *work(void *context)
{
	const struct acceptor *const acceptor = context;

	while (!await_stop(acceptor, 0)) {
		await_client(acceptor);
		if (connection_slot_reserve(acceptor->slots)) {
			accept_one(acceptor);
		} else {
			connection_slots_cut_slow(acceptor->slots);
			await_stop(acceptor, FULL_MS);
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
	if (!thread_start(&acceptor->thread, ACCEPTOR_STACK_BYTES, work, acceptor,
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
