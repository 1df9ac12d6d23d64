/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/connection_slots.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/xalloc.h"

struct connection_slot {
	struct connection_slot *next, **place; /* where it hangs in the list */
	int fd;
	enum connection_state state;
	int64_t since_ms; /* when it entered the state, on the monotonic clock */
};

void connection_slots_init(struct connection_slots *slots, unsigned max)
{
	*slots = (struct connection_slots){ .max = max };
	pthread_mutex_init(&slots->mutex, NULL);
}

void connection_slots_deinit(struct connection_slots *slots)
{
	pthread_mutex_destroy(&slots->mutex);
}

bool connection_slot_reserve(struct connection_slots *slots)
{
	pthread_mutex_lock(&slots->mutex);
	const bool has_place = slots->taken < slots->max;
	slots->taken += has_place;
	pthread_mutex_unlock(&slots->mutex);
	return has_place;
}

void connection_slot_cancel(struct connection_slots *slots)
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

void connection_slots_cut_slow(struct connection_slots *slots)
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
