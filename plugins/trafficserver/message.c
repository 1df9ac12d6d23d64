/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/message.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static const struct {
	const char *word;
	bool takes_argument;
} words[] = {
	[MESSAGE_EMPTY] = { "", false },
	[MESSAGE_ACTIVATE] = { "activate", false },
	[MESSAGE_DEACTIVATE] = { "deactivate", false },
	[MESSAGE_DUMP] = { "dump", false },
	[MESSAGE_STATS] = { "stats", false },
	[MESSAGE_STATUS] = { "status", false },
	[MESSAGE_START] = { "start", true },
	[MESSAGE_STOP] = { "stop", false },
	[MESSAGE_RESET] = { "reset", true },
};

void message_copy(struct message *message, const void *data, size_t size)
{
	const char *const text = data == NULL ? "" : data;
	size_t length = data == NULL ? 0 : size;

	if (length > 0 && text[length - 1] == '\0')
		length--;
	if (length >= sizeof message->text)
		length = sizeof message->text - 1;
	for (size_t i = 0; i < length; i++)
		message->text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	message->text[length] = '\0';
}

enum message_verb message_verb(const struct message *message, const char **argument)
{
	const char *const text = message->text;
	const size_t length = strcspn(text, " =");
	const size_t separator = text[length] == '=' ? 1 : strspn(text + length, " ");
	const char *const rest = text + length + separator;

	*argument = rest;
	for (size_t i = MESSAGE_EMPTY; i < sizeof words / sizeof words[0]; i++) {
		if (strlen(words[i].word) == length && memcmp(words[i].word, text, length) == 0 &&
			(*rest == '\0' || words[i].takes_argument))
			return (enum message_verb)i;
	}
	return MESSAGE_UNKNOWN;
}

bool message_number(const char *argument, int *number)
{
	int value = *argument == '\0' ? -1 : 0;
	const char *c = argument;

	for (; *c >= '0' && *c <= '9' && c - argument < 6; c++)
		value = value * 10 + (*c - '0');
	if (*c != '\0')
		return false;
	*number = value;
	return true;
}

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

static struct timespec deadline_after(int64_t timeout_ms)
{
	struct timespec deadline;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += timeout_ms / 1000;
	deadline.tv_nsec += timeout_ms % 1000 * 1000000;
	if (deadline.tv_nsec >= 1000000000) {
		deadline.tv_sec++;
		deadline.tv_nsec -= 1000000000;
	}
	return deadline;
}

enum queue_event queue_take(struct queue *queue, struct message *message, int64_t timeout_ms)
{
	const struct timespec deadline = deadline_after(timeout_ms);
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

bool queue_close(struct queue *queue, int64_t timeout_ms, size_t *discarded)
{
	const struct timespec deadline = deadline_after(timeout_ms);
	int waited = 0;

	pthread_mutex_lock(&queue->lock);
	queue->closed = true;
	*discarded = queue->count;
	queue->count = 0;
	pthread_cond_broadcast(&queue->changed);
	while (!queue->idle && waited != ETIMEDOUT)
		waited = pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline);
	const bool idle = queue->idle;
	pthread_mutex_unlock(&queue->lock);
	return idle;
}
