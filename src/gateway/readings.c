/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/readings.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "client/agent_client.h"

enum {
	THREADS_MAX = 16,
	ALL_THREADS_MAX = 128, /* of all readings at a time: many may ask for the figures at once */
	THREAD_STACK_BYTES = 512 * 1024,
};

struct crew {
	struct readings *readings;
	const struct readings *earlier; /* NULL: none */
	const char *path;
	size_t next; /* changed atomically */
};

static void look_at(struct reading *item, const char *path)
{
	struct backend_answer answer;
	json_error_t problem;

	if (!backend_get(item->backend, path, READINGS_LIMIT_MS, &answer, &item->err))
		return;
	item->milliseconds = answer.milliseconds;
	item->value = agent_json_parse(answer.body->data, answer.body->size, 0, &problem);
	if (item->value == NULL)
		error_set(&item->err, ERROR_INPUT, "%s gave an answer that is no JSON: %s",
			item->backend->target.label, problem.text);
	blob_drop(answer.body);
}

static void *work(void *context)
{
	struct crew *const crew = context;

	for (;;) {
		const size_t i = __atomic_fetch_add(&crew->next, 1, __ATOMIC_RELAXED);
		if (i >= crew->readings->count)
			return NULL;
		struct reading *const item = &crew->readings->items[i];
		if (crew->earlier != NULL && crew->earlier->items[i].value == NULL)
			item->err = crew->earlier->items[i].err;
		else
			look_at(item, crew->path);
	}
}

static unsigned all_threads;

static bool start_thread(struct crew *crew, const pthread_attr_t *attributes, pthread_t *thread)
{
	if (__atomic_add_fetch(&all_threads, 1, __ATOMIC_RELAXED) <= ALL_THREADS_MAX &&
		pthread_create(thread, attributes, work, crew) == 0)
		return true;
	__atomic_sub_fetch(&all_threads, 1, __ATOMIC_RELAXED);
	return false;
}

static void work_together(struct crew *crew)
{
	const size_t wanted =
		crew->readings->count < THREADS_MAX ? crew->readings->count : THREADS_MAX;
	pthread_t threads[THREADS_MAX];
	pthread_attr_t attributes;
	size_t count = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
	/* This thread works, too, and does it all when there is no other. */
	while (count + 1 < wanted && start_thread(crew, &attributes, &threads[count]))
		count++;
	pthread_attr_destroy(&attributes);
	work(crew);
	for (size_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	__atomic_sub_fetch(&all_threads, (unsigned)count, __ATOMIC_RELAXED);
}

void readings_take(struct readings *readings, const struct backend_list *list, const char *path,
	const struct readings *earlier)
{
	struct crew crew = { .readings = readings, .earlier = earlier, .path = path };

	*readings = (struct readings){
		.items = xcalloc(list->count, sizeof *readings->items),
		.count = list->count,
	};
	for (size_t i = 0; i < list->count; i++)
		readings->items[i].backend = list->items[i];
	work_together(&crew);
}

void readings_deinit(struct readings *readings)
{
	for (size_t i = 0; i < readings->count; i++)
		json_decref(readings->items[i].value);
	free(readings->items);
	*readings = (struct readings){ 0 };
}
