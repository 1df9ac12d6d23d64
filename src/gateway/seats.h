/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places for connections: how many are taken, and by whom for how long. When all are taken
 * and another client waits, clients that are slow on purpose have to leave: those that have not
 * sent a whole request, or taken their answer, within a time that no honest one needs then.
 *
 * Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	SEATS_REQUEST_MS = 2000,      /* from connecting, or the last answer, to a whole request */
	SEATS_ANSWER_MS = 120 * 1000, /* to take an answer */
	SEATS_CLEARED_MAX = 32,	      /* that have to leave at once */
};

enum seat_state {
	SEAT_REQUEST, /* the client is to send something */
	SEAT_WORK,    /* it waits for us */
	SEAT_ANSWER,  /* it is to take its answer */
};

/* One connection. */
struct seat;

struct seats {
	unsigned most;
	pthread_mutex_t mutex; /* of what follows */
	unsigned taken;
	struct seat *first;
};

void seats_init(struct seats *seats, unsigned most);
void seats_deinit(struct seats *seats);

/* A place for a connection that is about to be handed over; false when all are taken. */
bool seats_take(struct seats *seats);
/* It was not handed over after all. */
void seats_give_back(struct seats *seats);

/* The connection that a place was taken for has begun. `fd` is open until it leaves. */
struct seat *seats_sit_down(struct seats *seats, int fd);
/* It is about to be closed; gives its place back. */
void seats_leave(struct seats *seats, struct seat *seat);

void seats_enter(struct seats *seats, struct seat *seat, enum seat_state state);

/* Cuts off some of those that have been too slow. */
void seats_make_room(struct seats *seats);
