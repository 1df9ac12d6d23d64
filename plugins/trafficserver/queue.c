/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/queue.h"

#include <errno.h>
#include <time.h>

void queue_init(struct queue *queue)
{
	pthread_condattr_t attributes;

	*queue = (struct queue){ .count = 0 };
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

bool queue_put(struct queue *queue, const struct message *message)
{
	pthread_mutex_lock(&queue->lock);
	const bool fits = !queue->closed && queue->count < QUEUE_CAPACITY;
	if (fits) {
		queue->messages[(queue->first + queue->count) % QUEUE_CAPACITY] = *message;
		queue->count++;
		pthread_cond_broadcast(&queue->changed);
	} else {
		queue->refused++;
	}
	pthread_mutex_unlock(&queue->lock);
	return fits;
}

unsigned queue_refused(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	const unsigned refused = queue->refused;
	queue->refused = 0;
	pthread_mutex_unlock(&queue->lock);
	return refused;
}

static struct timespec moment_after(int64_t timeout_ms)
{
	struct timespec moment;

	clock_gettime(CLOCK_MONOTONIC, &moment);
	moment.tv_sec += timeout_ms / 1000;
	moment.tv_nsec += timeout_ms % 1000 * 1000000;
	if (moment.tv_nsec >= 1000000000) {
		moment.tv_sec++;
		moment.tv_nsec -= 1000000000;
	}
	return moment;
}

enum queue_event queue_take(struct queue *queue, struct message *message, int64_t timeout_ms)
{
	const struct timespec deadline = moment_after(timeout_ms);
	enum queue_event event = QUEUE_MESSAGE;
	int waited = 0;

	pthread_mutex_lock(&queue->lock);
	queue->idle = true;
	pthread_cond_broadcast(&queue->changed);
	while (queue->count == 0 && !queue->closed && waited != ETIMEDOUT)
		waited = pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline);
	if (queue->closed) {
		event = QUEUE_CLOSED;
	} else if (queue->count == 0) {
		event = QUEUE_TIMEOUT;
	} else {
		*message = queue->messages[queue->first];
		queue->first = (queue->first + 1) % QUEUE_CAPACITY;
		queue->count--;
	}
	queue->idle = event == QUEUE_CLOSED;
	pthread_mutex_unlock(&queue->lock);
	return event;
}

bool queue_close(struct queue *queue, int64_t timeout_ms, size_t *forgotten)
{
	const struct timespec deadline = moment_after(timeout_ms);
	int waited = 0;

	pthread_mutex_lock(&queue->lock);
	queue->closed = true;
	*forgotten = queue->count;
	queue->count = 0;
	pthread_cond_broadcast(&queue->changed);
	while (!queue->idle && waited != ETIMEDOUT)
		waited = pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline);
	const bool idle = queue->idle;
	pthread_mutex_unlock(&queue->lock);
	return idle;
}
