/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin message: one word, for some words an argument after a space or a '=' (traffic_ctl sends
 * one word of its command line only). Words match whole: "d" is not "dump". Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MESSAGE_TEXT_BYTES = 64 };

/* As it came. What cannot be printed is a '?', so that it can stand in a log. */
struct message {
	char text[MESSAGE_TEXT_BYTES];
};

enum message_verb {
	MESSAGE_UNKNOWN,
	MESSAGE_EMPTY,
	MESSAGE_ACTIVATE,
	MESSAGE_DEACTIVATE,
	MESSAGE_DUMP,
	MESSAGE_STATS,
	MESSAGE_STATUS,
	MESSAGE_START,
	MESSAGE_STOP,
	MESSAGE_RESET,
};

/* Every word, for people. */
#define MESSAGE_WORDS \
	"activate, deactivate, dump, stats, status, start=DURATION, stop, reset[=LG_SAMPLE]"

/* `data` may be NULL, and may end in one NUL, as traffic_ctl 9 sends it. Too long a text is cut. */
void message_copy(struct message *message, const void *data, size_t size);

/*
 * The verb, and what follows it (in `message`; "" when nothing does). A verb that takes nothing
 * and has something after it is unknown.
 */
enum message_verb message_verb(const struct message *message, const char **argument);

/* "" or a decimal number: -1 for "". False for anything else. */
bool message_number(const char *argument, int *number);

enum { QUEUE_CAPACITY = 64 };

/*
 * Messages on their way from Traffic Server's threads to the plugin's own. Bounded; putting never
 * waits for the work.
 */
struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct message messages[QUEUE_CAPACITY];
	size_t first;
	size_t count;
	unsigned refused; /* since the last queue_refused */
	bool closed;
	bool idle; /* the taker waits */
};

void queue_init(struct queue *queue);

/* False when it is full or closed. */
bool queue_put(struct queue *queue, const struct message *message);

/* How many were refused since the last call. */
unsigned queue_refused(struct queue *queue);

enum queue_event {
	QUEUE_MESSAGE,
	QUEUE_TIMEOUT,
	QUEUE_CLOSED,
};

/* Waits for the next message, `timeout_ms` at most. One thread only. */
enum queue_event queue_take(struct queue *queue, struct message *message, int64_t timeout_ms);

/*
 * Discards the messages that wait, refuses others, and waits until the taker has finished its
 * current one; false when that takes longer than `timeout_ms`. `discarded` is how many waited.
 */
bool queue_close(struct queue *queue, int64_t timeout_ms, size_t *discarded);
