/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots for connections, and what each waits for since when. When all are taken and another
 * client waits, slow clients are cut off: those that have not sent a whole request, or not taken
 * their answer, in the time that an honest client needs. So are, when the files of uploads and of
 * results that are being sent fill their budget, slow clients that hold much of it. Any thread.
 *
 * An *acceptor* accepts connections as long as there is a slot; the others wait in the socket's
 * backlog. libmicrohttpd itself would accept and cut off what is above its limit, and it counts a
 * connection only when it begins to serve it; so the slots are counted here.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <microhttpd.h>

#include "base/error.h"
#include "base/memory.h"
#include "gateway/listener.h"
#include "gateway/result_cache.h"

enum {
	CONNECTION_REQUEST_MS = 2000, /* from connecting, or the last answer, to a whole request */
	CONNECTION_ANSWER_MS = 120 * 1000, /* to take an answer */
	CONNECTIONS_CUT_MAX = 32,	   /* at once */
	/* While a budget is full, a client that takes or sends less than this is slow, after this
	 * time.
	 */
	CONNECTION_SLOW_BYTES_PER_S = 1024 * 1024,
	CONNECTION_SLOW_MS = 2000,
	CONNECTION_RECLAIM_MS = 1000, /* how long to wait for the bytes of a closed connection */
};

enum connection_state {
	CONNECTION_REQUEST, /* waits for the client's request */
	CONNECTION_UPLOAD,  /* waits for the body of a request, which becomes a file */
	CONNECTION_WORK,    /* waits for the gateway */
	CONNECTION_ANSWER,  /* waits for the client to take its answer */
};

struct connection_slot;

struct connection_slots {
	unsigned max;
	pthread_mutex_t mutex; /* of what follows */
	unsigned taken;
	struct connection_slot *first;
};

/* At most `max`, and half of RLIMIT_NOFILE: the other half is for targets and workers. */
void connection_slots_init(struct connection_slots *slots, unsigned max);
void connection_slots_deinit(struct connection_slots *slots);

/* The connection that a slot was reserved for has begun. `fd` is open until it is detached. */
struct connection_slot *connection_slot_attach(struct connection_slots *slots, int fd);
/* It is about to be closed: frees its slot. */
void connection_slot_detach(struct connection_slots *slots, struct connection_slot *slot);

/*
 * CONNECTION_WORK is entered by the thread that does the work. `answer` is what the client takes in
 * CONNECTION_ANSWER (the slot has a reference of its own until the next state); else NULL.
 */
void connection_slot_enter(struct connection_slots *slots, struct connection_slot *slot,
	enum connection_state state, struct blob *answer);

/* How much of the budget the upload holds; in CONNECTION_UPLOAD, whenever more of it came. */
void connection_slot_hold(struct connection_slots *slots, struct connection_slot *slot,
	const struct byte_budget *budget, uint64_t bytes);

/*
 * For byte_budget.reclaim, with the slots as context. Finds the client (an IPv4 address, a /64 of
 * IPv6, a user by a unix socket) whose slow connections hold the most of the budget, closes the one
 * of them that holds the most, and waits for its bytes. False when no connection is slow, or when
 * the caller works for that client itself, whose request is the one to refuse.
 */
bool connection_slots_reclaim(struct byte_budget *budget, void *slots);

struct acceptor;

/*
 * Starts a thread, which reserves a slot for each connection that it passes to the daemon, and ends
 * once stop_fd is readable. The daemon's owner attaches and detaches them.
 */
MUST_CHECK bool acceptor_start(const struct listener *listener, struct MHD_Daemon *daemon,
	struct connection_slots *slots, int stop_fd, struct acceptor **acceptor, struct error *err);

/* After stop_fd became readable: waits for its end. NULL is fine. */
void acceptor_join(struct acceptor *acceptor);
