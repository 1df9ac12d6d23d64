/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on their way from Traffic Server's threads to the plugin's own. Bounded; putting never
 * waits for the work.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "trafficserver/message.h"

enum { QUEUE_CAPACITY = 64 };

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct message messages[QUEUE_CAPACITY];
	size_t first;
	size_t count;
	unsigned refused; /* since queue_refused was asked */
	bool closed;
	bool idle; /* the taker waits: nothing is being worked on */
};

void queue_init(struct queue *queue);

/* False when it is full or closed. */
bool queue_put(struct queue *queue, const struct message *message);

/* How many did not fit since the last time. */
unsigned queue_refused(struct queue *queue);

enum queue_event {
	QUEUE_MESSAGE,
	QUEUE_TIMEOUT,
	QUEUE_CLOSED,
};

/* Waits for the next message, `timeout_ms` at most. One thread only. */
enum queue_event queue_take(struct queue *queue, struct message *message, int64_t timeout_ms);

/*
 * Forgets what waits, takes nothing any more, and waits until the taker has done what it is at;
 * false when that takes longer than `timeout_ms`. `forgotten` is how many messages waited.
 */
bool queue_close(struct queue *queue, int64_t timeout_ms, size_t *forgotten);
