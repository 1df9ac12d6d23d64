/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/gateway.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "client/agent_client.h"

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

static bool fail_full(struct error *err)
{
	error_set(err, ERROR_TIMEOUT, "too many requests are waiting");
	return error_hint(err, "try again later");
}

bool gateway_begin_wait(struct gateway *gateway, struct error *err)
{
	if (__atomic_add_fetch(&gateway->counters.waiting, 1, __ATOMIC_RELAXED) <=
		GATEWAY_WAITING_MAX)
		return true;
	gateway_end_wait(gateway);
	return fail_full(err);
}

void gateway_end_wait(struct gateway *gateway)
{
	__atomic_sub_fetch(&gateway->counters.waiting, 1, __ATOMIC_RELAXED);
}

void work_places_init(struct work_places *places)
{
	*places = (struct work_places){ 0 };
	pthread_mutex_init(&places->mutex, NULL);
}

void work_places_deinit(struct work_places *places)
{
	pthread_mutex_destroy(&places->mutex);
}

bool gateway_begin_work(struct gateway *gateway, struct work_place *place, struct error *err)
{
	struct work_places *const places = &gateway->places;
	unsigned all = 0, own = 0;

	pthread_mutex_lock(&places->mutex);
	for (const struct work_place *other = places->taken; other != NULL; other = other->next) {
		all++;
		own += strcmp(other->target, place->target) == 0;
	}
	const bool is_free = own + all < GATEWAY_WORKING_MAX;
	if (is_free) {
		place->next = places->taken;
		places->taken = place;
	}
	pthread_mutex_unlock(&places->mutex);
	return is_free || fail_full(err);
}

void gateway_end_work(struct gateway *gateway, struct work_place *place)
{
	struct work_place **at = &gateway->places.taken;

	pthread_mutex_lock(&gateway->places.mutex);
	while (*at != place)
		at = &(*at)->next;
	*at = place->next;
	pthread_mutex_unlock(&gateway->places.mutex);
}

void merge_queue_init(struct merge_queue *queue)
{
	*queue = (struct merge_queue){ 0 };
	pthread_mutex_init(&queue->mutex, NULL);
	clock_condition_init(&queue->changed);
}

void merge_queue_deinit(struct merge_queue *queue)
{
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->mutex);
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

bool gateway_check_history(const struct gateway *gateway, struct error *err)
{
	if (gateway->store != NULL)
		return true;
	error_set(err, ERROR_NOT_FOUND, "this gateway has no history");
	return error_hint(err, "start heapctl serve with --history FOLDER");
}

bool gateway_find_history(struct gateway *gateway, const struct request *request,
	char name[GATEWAY_NAME_BYTES], struct error *err)
{
	return gateway_check_history(gateway, err) &&
	       gateway_find_name(gateway, request, name, err);
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

enum {
	ALL_THREADS_MAX = 128, /* of all calls at a time: many requests may work at once */
	THREAD_STACK_BYTES = 512 * 1024,
};

struct shared_work {
	gateway_work *work;
	void *context;
	size_t count;
	size_t next; /* changed atomically */
};

static void *take_items(void *context)
{
	struct shared_work *const shared = context;

	for (;;) {
		const size_t i = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED);
		if (i >= shared->count)
			return NULL;
		shared->work(shared->context, i);
	}
}

static unsigned all_threads;

static bool start_thread(
	struct shared_work *shared, const pthread_attr_t *attributes, pthread_t *thread)
{
	if (__atomic_add_fetch(&all_threads, 1, __ATOMIC_RELAXED) <= ALL_THREADS_MAX &&
		pthread_create(thread, attributes, take_items, shared) == 0)
		return true;
	__atomic_sub_fetch(&all_threads, 1, __ATOMIC_RELAXED);
	return false;
}

void gateway_work_together(size_t count, unsigned threads_max, gateway_work *work, void *context)
{
	struct shared_work shared = { .work = work, .context = context, .count = count };
	const size_t wanted = count < threads_max ? count : threads_max;
	pthread_t threads[GATEWAY_THREADS_MAX];
	pthread_attr_t attributes;
	size_t started = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
	/* This thread works, too, alone when no other can be started. */
	while (started + 1 < wanted && start_thread(&shared, &attributes, &threads[started]))
		started++;
	pthread_attr_destroy(&attributes);
	take_items(&shared);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	__atomic_sub_fetch(&all_threads, (unsigned)started, __ATOMIC_RELAXED);
}

struct poll_job {
	struct target_poll *poll;
	const struct target_poll *earlier; /* NULL: none */
	const char *path;
};

static void poll_target(struct poll_result *item, const char *path)
{
	struct backend_answer answer;
	json_error_t problem;

	if (!backend_get(item->backend, path, TARGET_POLL_LIMIT_MS, &answer, &item->err))
		return;
	item->milliseconds = answer.milliseconds;
	item->value = agent_json_parse(answer.body->data, answer.body->size, 0, &problem);
	if (item->value == NULL) {
		error_set(&item->err, ERROR_INPUT, "%s gave an answer that is no JSON: %s",
			item->backend->target.label, problem.text);
		error_hint(
			&item->err, "agents answer otherwise: check which program answers there");
	}
	blob_drop(answer.body);
}

static void poll_item(void *context, size_t i)
{
	const struct poll_job *const job = context;
	struct poll_result *const item = &job->poll->items[i];

	if (job->earlier != NULL && job->earlier->items[i].value == NULL)
		item->err = job->earlier->items[i].err;
	else
		poll_target(item, job->path);
}

void target_poll_run(struct target_poll *poll, const struct backend_list *list, const char *path,
	const struct target_poll *earlier)
{
	struct poll_job job = { .poll = poll, .earlier = earlier, .path = path };

	*poll = (struct target_poll){
		.items = xcalloc(list->count, sizeof *poll->items),
		.count = list->count,
	};
	for (size_t i = 0; i < list->count; i++)
		poll->items[i].backend = list->items[i];
	gateway_work_together(list->count, GATEWAY_THREADS_MAX, poll_item, &job);
}

void target_poll_deinit(struct target_poll *poll)
{
	for (size_t i = 0; i < poll->count; i++)
		json_decref(poll->items[i].value);
	free(poll->items);
	*poll = (struct target_poll){ 0 };
}
