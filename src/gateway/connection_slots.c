/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/connection_slots.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "gateway/gateway.h"

/* Connections with the same are of one client. */
struct client {
	int family;
	uint64_t number; /* an IPv4 address, a network of IPv6, a user */
};

struct connection_slot {
	struct connection_slot *next, **place; /* where it hangs in the list */
	int fd;
	struct client client;
	enum connection_state state;
	int64_t since_ms;      /* when it entered the state, on the monotonic clock */
	uint64_t acknowledged; /* bytes of the connection at that time */
	pthread_t thread;      /* that entered the state */
	struct blob *answer;   /* in CONNECTION_ANSWER, until it is cut off; else NULL */
	struct {
		const struct byte_budget *budget;
		uint64_t bytes;
		/* A client may send much and then nearly nothing: its rate is that since then. */
		int64_t marked_ms;
		uint64_t marked_bytes;
		bool was_slow; /* before that */
	} upload;	       /* in CONNECTION_UPLOAD */
	uint64_t reclaimable;  /* bytes, for connection_slots_reclaim */
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

static struct client find_client(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage storage;
	} peer = { .storage = { 0 } };
	socklen_t size = sizeof peer;
	struct ucred user = { 0 };

	if (getpeername(fd, &peer.any, &size) != 0)
		return (struct client){ .family = AF_UNSPEC };
	struct client client = { .family = peer.any.sa_family };
	if (client.family == AF_INET) {
		client.number = peer.v4.sin_addr.s_addr;
	} else if (client.family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&peer.v6.sin6_addr)) {
		client.family = AF_INET;
		memcpy(&client.number, peer.v6.sin6_addr.s6_addr + 12, 4);
	} else if (client.family == AF_INET6) {
		memcpy(&client.number, peer.v6.sin6_addr.s6_addr, 8);
	} else {
		size = sizeof user;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) == 0)
			client.number = user.uid;
	}
	return client;
}

/* How many bytes the client has acknowledged; false where that is not known: unix sockets. */
static bool get_acknowledged(int fd, uint64_t *bytes)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof info;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
		size < offsetof(struct tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked)
		return false;
	*bytes = info.tcpi_bytes_acked;
	return true;
}

struct connection_slot *connection_slot_attach(struct connection_slots *slots, int fd)
{
	struct connection_slot *const slot = xmalloc(sizeof *slot);

	*slot = (struct connection_slot){
		.fd = fd,
		.client = find_client(fd),
		.since_ms = clock_monotonic_ms(),
	};
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
	blob_drop(slot->answer);
	free(slot);
}

void connection_slot_enter(struct connection_slots *slots, struct connection_slot *slot,
	enum connection_state state, struct blob *answer)
{
	pthread_mutex_lock(&slots->mutex);
	struct blob *const former = slot->answer;
	slot->answer = answer == NULL ? NULL : blob_share(answer);
	slot->state = state;
	slot->since_ms = clock_monotonic_ms();
	slot->thread = pthread_self();
	slot->upload.budget = NULL;
	if (answer != NULL && answer->budget != NULL)
		get_acknowledged(slot->fd, &slot->acknowledged);
	pthread_mutex_unlock(&slots->mutex);
	blob_drop(former);
}

static bool is_slow_rate(uint64_t bytes, int64_t age_ms)
{
	return bytes * 1000 / (uint64_t)age_ms < CONNECTION_SLOW_BYTES_PER_S;
}

static bool sends_slowly(const struct connection_slot *slot, int64_t now_ms)
{
	const int64_t age_ms = now_ms - slot->upload.marked_ms;

	return age_ms < CONNECTION_SLOW_MS
		       ? slot->upload.was_slow
		       : is_slow_rate(slot->upload.bytes - slot->upload.marked_bytes, age_ms);
}

void connection_slot_hold(struct connection_slots *slots, struct connection_slot *slot,
	const struct byte_budget *budget, uint64_t bytes)
{
	const int64_t now_ms = clock_monotonic_ms();

	pthread_mutex_lock(&slots->mutex);
	if (slot->upload.budget == NULL) {
		slot->upload.marked_ms = slot->since_ms;
		slot->upload.marked_bytes = 0;
		slot->upload.was_slow = false;
	}
	slot->upload.budget = budget;
	slot->upload.bytes = bytes;
	if (now_ms - slot->upload.marked_ms >= CONNECTION_SLOW_MS) {
		slot->upload.was_slow = sends_slowly(slot, now_ms);
		slot->upload.marked_ms = now_ms;
		slot->upload.marked_bytes = bytes;
	}
	pthread_mutex_unlock(&slots->mutex);
}

static int64_t limit_of(const struct connection_slot *slot)
{
	switch (slot->state) {
	case CONNECTION_REQUEST:
	case CONNECTION_UPLOAD:
		return CONNECTION_REQUEST_MS;
	case CONNECTION_ANSWER:
		return CONNECTION_ANSWER_MS;
	case CONNECTION_WORK:
		break;
	}
	return INT64_MAX;
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

/* Where the rate is not known, as slow as when all slots are taken. */
static bool takes_slowly(const struct connection_slot *slot, int64_t now_ms)
{
	const int64_t age_ms = now_ms - slot->since_ms;
	uint64_t bytes;

	if (age_ms < CONNECTION_SLOW_MS || age_ms > CONNECTION_ANSWER_MS)
		return age_ms > CONNECTION_ANSWER_MS;
	return get_acknowledged(slot->fd, &bytes) &&
	       is_slow_rate(bytes - slot->acknowledged, age_ms);
}

/* Each of several connections that take the same answer holds a part of it. */
static uint64_t count_reclaimable(
	const struct connection_slot *slot, const struct byte_budget *budget, int64_t now_ms)
{
	const struct blob *const answer = slot->answer;

	if (slot->state == CONNECTION_UPLOAD)
		return slot->upload.budget == budget && sends_slowly(slot, now_ms)
			       ? slot->upload.bytes
			       : 0;
	if (answer == NULL || answer->budget != budget || !takes_slowly(slot, now_ms))
		return 0;
	return answer->budget_bytes / __atomic_load_n(&answer->references, __ATOMIC_RELAXED);
}

static bool is_of(const struct connection_slot *slot, const struct client *client)
{
	return slot->client.family == client->family && slot->client.number == client->number;
}

static uint64_t sum_reclaimable(const struct connection_slots *slots, const struct client *client)
{
	uint64_t sum = 0;

	for (const struct connection_slot *slot = slots->first; slot != NULL; slot = slot->next)
		sum += is_of(slot, client) ? slot->reclaimable : 0;
	return sum;
}

static bool works_for(const struct connection_slots *slots, const struct client *client)
{
	for (const struct connection_slot *slot = slots->first; slot != NULL; slot = slot->next) {
		if ((slot->state == CONNECTION_WORK || slot->state == CONNECTION_UPLOAD) &&
			is_of(slot, client) && pthread_equal(slot->thread, pthread_self()))
			return true;
	}
	return false;
}

/* The connection that holds the most of the client that does; NULL when none is slow. */
static struct connection_slot *find_heaviest(
	struct connection_slots *slots, const struct byte_budget *budget)
{
	const int64_t now_ms = clock_monotonic_ms();
	struct connection_slot *heaviest = NULL;
	uint64_t max = 0;

	for (struct connection_slot *slot = slots->first; slot != NULL; slot = slot->next)
		slot->reclaimable = count_reclaimable(slot, budget, now_ms);
	for (struct connection_slot *slot = slots->first; slot != NULL; slot = slot->next) {
		const uint64_t sum =
			slot->reclaimable == 0 ? 0 : sum_reclaimable(slots, &slot->client);
		if (sum > max || (heaviest != NULL && is_of(slot, &heaviest->client) &&
					 slot->reclaimable > heaviest->reclaimable))
			heaviest = slot;
		max = sum > max ? sum : max;
	}
	return heaviest;
}

bool connection_slots_reclaim(struct byte_budget *budget, void *context)
{
	struct connection_slots *const slots = context;
	const uint64_t before = __atomic_load_n(&budget->used, __ATOMIC_RELAXED);
	const int64_t deadline_ms = clock_monotonic_ms() + CONNECTION_RECLAIM_MS;
	struct blob *answer = NULL;

	pthread_mutex_lock(&slots->mutex);
	struct connection_slot *const slot = find_heaviest(slots, budget);
	const bool is_cut = slot != NULL && !works_for(slots, &slot->client);
	if (is_cut) {
		answer = slot->answer;
		slot->answer = NULL;
		slot->upload.budget = NULL;
		/* Its thread sees the end of the stream and closes it. */
		shutdown(slot->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&slots->mutex);
	if (!is_cut)
		return false;
	blob_drop(answer);
	while (__atomic_load_n(&budget->used, __ATOMIC_RELAXED) >= before &&
		clock_monotonic_ms() < deadline_ms)
		nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000 * 1000 }, NULL);
	return __atomic_load_n(&budget->used, __ATOMIC_RELAXED) < before;
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
