/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/gateway.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"

bool gateway_wait(const struct gateway *gateway, const struct request *request, int64_t duration_ms)
{
	const int64_t deadline_ms = clock_monotonic_ms() + duration_ms;
	/* A client sends nothing while it waits for an answer; only a hang-up is an event. */
	struct pollfd pollers[] = {
		{ .fd = gateway->stop_fd, .events = POLLIN },
		{ .fd = request->client_fd, .events = POLLRDHUP },
	};

	for (int64_t left_ms = duration_ms; left_ms > 0;
		left_ms = deadline_ms - clock_monotonic_ms()) {
		const int ready = poll(pollers, 2, (int)left_ms);
		if (ready > 0 || (ready < 0 && errno != EINTR))
			return false;
	}
	return true;
}

static bool acquire_place(unsigned *taken, unsigned limit, struct error *err)
{
	if (__atomic_add_fetch(taken, 1, __ATOMIC_RELAXED) <= limit)
		return true;
	__atomic_sub_fetch(taken, 1, __ATOMIC_RELAXED);
	error_set(err, ERROR_TIMEOUT, "too many requests are waiting");
	return error_hint(err, "try again later");
}

bool gateway_begin_wait(struct gateway *gateway, struct error *err)
{
	return acquire_place(&gateway->counters.waiting, GATEWAY_WAITING_MAX, err);
}

void gateway_end_wait(struct gateway *gateway)
{
	__atomic_sub_fetch(&gateway->counters.waiting, 1, __ATOMIC_RELAXED);
}

bool gateway_begin_work(struct gateway *gateway, struct error *err)
{
	return acquire_place(&gateway->counters.working, GATEWAY_WORKING_MAX, err);
}

void gateway_end_work(struct gateway *gateway)
{
	__atomic_sub_fetch(&gateway->counters.working, 1, __ATOMIC_RELAXED);
}

bool gateway_find(struct gateway *gateway, const struct request *request, struct backend **backend,
	struct error *err)
{
	return backend_set_find(&gateway->backends, request->target_name, backend, err);
}

bool gateway_find_name(struct gateway *gateway, const struct request *request,
	char name[GATEWAY_NAME_BYTES], struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;

	if (request->target_name != NULL)
		backend_set_plain_name(
			&gateway->backends, request->target_name, name, GATEWAY_NAME_BYTES);
	else if (gateway_find(gateway, request, &backend, err))
		snprintf(name, GATEWAY_NAME_BYTES, "%s", backend->name);
	else if (gateway->backends.wanted_count > 0)
		backend_set_plain_name(
			&gateway->backends, gateway->backends.wanted[0], name, GATEWAY_NAME_BYTES);
	else
		return false;
	return true;
}

bool thread_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *context),
	void *context, const char *purpose, struct error *err)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, stack_bytes);
	const int failed = pthread_create(thread, &attributes, work, context);
	pthread_attr_destroy(&attributes);
	return failed == 0 || error_system(err, failed, "starting %s", purpose);
}
