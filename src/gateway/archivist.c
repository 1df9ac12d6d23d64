/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/archivist.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/user_name.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/heap_text.h"
#include "gateway/thread.h"

enum {
	STACK_BYTES = 1024 * 1024,
	/* So many work at a time; those that have gone on for long hold up nobody any more. */
	KEEPERS_AT_ONCE = 4,
	LONG_MS = 5 * 1000,
	KEEPERS_MAX = 64,
	/* How long to wait for a free keeper before looking again. */
	LOOK_MS = 50,
};

/* Keeps one moment of one target, on a thread of its own: a target that hangs delays no other. */
struct keeper {
	struct archivist *archivist;
	struct backend *backend; /* NULL: free; set and cleared by the archivist's thread */
	int64_t begun_ms;	 /* on the monotonic clock */
	pthread_t thread;
	bool is_done; /* changed with atomic operations */
};

struct archivist {
	struct gateway *gateway;
	int64_t every_ms;
	pthread_t thread;
	struct keeper keepers[KEEPERS_MAX]; /* of the archivist's thread */
};

static void say(const struct archivist *archivist, const struct error *err)
{
	char line[900];

	if (archivist->gateway->log == NULL)
		return;
	snprintf(line, sizeof line, "history: %s%s%s%s", err->message,
		err->hint[0] == '\0' ? "" : " (", err->hint, err->hint[0] == '\0' ? "" : ")");
	archivist->gateway->log(line);
}

static bool keep(struct gateway *gateway, struct backend *backend, const json_t *status,
	struct archive_moment *moment, struct error *err)
{
	struct backend_answer answer;

	moment->time_ms = clock_realtime_ms();
	memory_figures_take(backend, status, moment->bytes);
	moment->owner = backend->owner == USER_ANY ? ARCHIVE_NO_OWNER : (int64_t)backend->owner;
	moment->pid = backend->pid != 0 ? backend->pid : json_number(status, "pid");
	moment->started_ms = json_number(status, "started_ms");
	snprintf(moment->target, sizeof moment->target, "%s", backend->name);
	if (!backend_get_profile(backend, "/v1/profile", &answer, err))
		return false;
	/* It stays for days, and takes the room of others. */
	const bool ok =
		(heap_text_check(answer.body->data, answer.body->size, err) ||
			error_prefix(err, "%s", backend->target.label)) &&
		archive_add(gateway->archive, moment, answer.body->data, answer.body->size, err);
	blob_drop(answer.body);
	return ok;
}

bool archivist_keep(struct gateway *gateway, struct backend *backend, const char *reason,
	struct archive_moment *moment, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	*moment = (struct archive_moment){ 0 };
	snprintf(moment->reason, sizeof moment->reason, "%s", reason);
	return backend_get_json(backend, "/v1/status", &status, err) &&
	       keep(gateway, backend, status, moment, err);
}

static bool keep_regularly(struct gateway *gateway, struct backend *backend, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct archive_moment moment = { 0 };

	if (!backend_get_json(backend, "/v1/status", &status, err))
		return false;
	return !json_flag(status, "profiling.available") ||
	       keep(gateway, backend, status, &moment, err);
}

static bool is_over(const struct archivist *archivist, int64_t patience_ms)
{
	struct pollfd poller = { .fd = archivist->gateway->stop_fd, .events = POLLIN };

	return poll(&poller, 1, patience_ms > INT32_MAX ? INT32_MAX : (int)patience_ms) > 0;
}

static void *work_as_keeper(void *context)
{
	struct keeper *const keeper = context;
	struct gateway *const gateway = keeper->archivist->gateway;
	struct error err;

	__atomic_add_fetch(&gateway->counters.active, 1, __ATOMIC_RELAXED);
	if (!keep_regularly(gateway, keeper->backend, &err))
		say(keeper->archivist, &err);
	__atomic_sub_fetch(&gateway->counters.active, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&keeper->is_done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void release(struct keeper *keeper)
{
	pthread_join(keeper->thread, NULL);
	backend_drop(keeper->backend);
	keeper->backend = NULL;
}

/* NULL when there is work enough under way. */
static struct keeper *find_free_keeper(struct archivist *archivist)
{
	const int64_t recently_ms = clock_monotonic_ms() - LONG_MS;
	struct keeper *found = NULL;
	unsigned busy = 0;

	for (size_t i = 0; i < KEEPERS_MAX; i++) {
		struct keeper *const keeper = &archivist->keepers[i];
		if (keeper->backend != NULL && __atomic_load_n(&keeper->is_done, __ATOMIC_ACQUIRE))
			release(keeper);
		if (keeper->backend == NULL)
			found = keeper;
		else
			busy += keeper->begun_ms > recently_ms;
	}
	return busy < KEEPERS_AT_ONCE ? found : NULL;
}

static bool is_being_kept(const struct archivist *archivist, const struct backend *backend)
{
	for (size_t i = 0; i < KEEPERS_MAX; i++) {
		if (archivist->keepers[i].backend == backend)
			return true;
	}
	return false;
}

static void start_keeper(
	struct keeper *keeper, struct archivist *archivist, struct backend *backend)
{
	struct error ignored;

	*keeper = (struct keeper){
		.archivist = archivist,
		.backend = backend_share(backend),
		.begun_ms = clock_monotonic_ms(),
	};
	if (thread_start(
		    &keeper->thread, STACK_BYTES, work_as_keeper, keeper, "a keeper", &ignored))
		return;
	/* Without a thread it is done here, one after the other. */
	work_as_keeper(keeper);
	backend_drop(keeper->backend);
	keeper->backend = NULL;
}

/* Ends when every target has its keeper, not when they are done. */
static void keep_all(struct archivist *archivist)
{
	CLEANUP(backend_list_cleanup) struct backend_list list = { 0 };

	backend_set_list(&archivist->gateway->backends, &list);
	for (size_t i = 0; i < list.count; i++) {
		struct keeper *keeper;
		while ((keeper = find_free_keeper(archivist)) == NULL) {
			if (is_over(archivist, LOOK_MS))
				return;
		}
		if (is_over(archivist, 0))
			return;
		/* Its last moment takes longer than the time between two. */
		if (!is_being_kept(archivist, list.items[i]))
			start_keeper(keeper, archivist, list.items[i]);
	}
}

static void *work(void *context)
{
	struct archivist *const archivist = context;

	do {
		const int64_t begun_ms = clock_monotonic_ms();
		keep_all(archivist);
		const int64_t left_ms = begun_ms + archivist->every_ms - clock_monotonic_ms();
		if (is_over(archivist, left_ms < 0 ? 0 : left_ms))
			break;
	} while (true);
	for (size_t i = 0; i < KEEPERS_MAX; i++) {
		if (archivist->keepers[i].backend != NULL)
			release(&archivist->keepers[i]);
	}
	return NULL;
}

bool archivist_start(
	struct gateway *gateway, int64_t every_ms, struct archivist **ret, struct error *err)
{
	struct archivist *const archivist = xcalloc(1, sizeof *archivist);

	archivist->gateway = gateway;
	archivist->every_ms = every_ms;
	if (!thread_start(&archivist->thread, STACK_BYTES, work, archivist,
		    "the thread of the history", err)) {
		free(archivist);
		return false;
	}
	*ret = archivist;
	return true;
}

void archivist_join(struct archivist *archivist)
{
	if (archivist == NULL)
		return;
	pthread_join(archivist->thread, NULL);
	free(archivist);
}
