/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/seats.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/xalloc.h"

struct seat {
	struct seat *next, **place; /* where it hangs in the list */
	int fd;
	enum seat_state state;
	int64_t since_ms; /* when it entered the state, on the monotonic clock */
};

void seats_init(struct seats *seats, unsigned most)
{
	*seats = (struct seats){ .most = most };
	pthread_mutex_init(&seats->mutex, NULL);
}

void seats_deinit(struct seats *seats)
{
	pthread_mutex_destroy(&seats->mutex);
}

bool seats_take(struct seats *seats)
{
	pthread_mutex_lock(&seats->mutex);
	const bool has_place = seats->taken < seats->most;
	seats->taken += has_place;
	pthread_mutex_unlock(&seats->mutex);
	return has_place;
}

void seats_give_back(struct seats *seats)
{
	pthread_mutex_lock(&seats->mutex);
	seats->taken--;
	pthread_mutex_unlock(&seats->mutex);
}

struct seat *seats_sit_down(struct seats *seats, int fd)
{
	struct seat *const seat = xmalloc(sizeof *seat);

	*seat = (struct seat){ .fd = fd, .since_ms = clock_monotonic_ms() };
	pthread_mutex_lock(&seats->mutex);
	seat->next = seats->first;
	seat->place = &seats->first;
	if (seat->next != NULL)
		seat->next->place = &seat->next;
	seats->first = seat;
	pthread_mutex_unlock(&seats->mutex);
	return seat;
}

void seats_leave(struct seats *seats, struct seat *seat)
{
	pthread_mutex_lock(&seats->mutex);
	*seat->place = seat->next;
	if (seat->next != NULL)
		seat->next->place = seat->place;
	seats->taken--;
	pthread_mutex_unlock(&seats->mutex);
	free(seat);
}

void seats_enter(struct seats *seats, struct seat *seat, enum seat_state state)
{
	pthread_mutex_lock(&seats->mutex);
	seat->state = state;
	seat->since_ms = clock_monotonic_ms();
	pthread_mutex_unlock(&seats->mutex);
}

static int64_t limit_of(const struct seat *seat)
{
	return seat->state == SEAT_REQUEST  ? SEATS_REQUEST_MS
	       : seat->state == SEAT_ANSWER ? SEATS_ANSWER_MS
					    : INT64_MAX;
}

void seats_make_room(struct seats *seats)
{
	const int64_t now_ms = clock_monotonic_ms();
	unsigned cleared = 0;

	pthread_mutex_lock(&seats->mutex);
	for (struct seat *seat = seats->first; seat != NULL && cleared < SEATS_CLEARED_MAX;
		seat = seat->next) {
		if (now_ms - seat->since_ms <= limit_of(seat))
			continue;
		/* Its thread sees the end of the stream and closes it. */
		shutdown(seat->fd, SHUT_RDWR);
		seat->since_ms = now_ms;
		cleared++;
	}
	pthread_mutex_unlock(&seats->mutex);
}
