/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/interval_recorder.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/user_name.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "watch/recorder.h"

enum {
	STACK_BYTES = 1024 * 1024,
	/* At most so many work at a time; those that have run for long no longer count. */
	KEEPERS_AT_ONCE = 4,
	LONG_MS = 5 * 1000,
	KEEPERS_MAX = 64,
	/* How long to wait for a free keeper before looking again. */
	LOOK_MS = 50,
};

/* Keeps one snapshot of one target, on a thread of its own: a target that hangs delays no other. */
struct keeper {
	struct interval_recorder *recorder;
	struct backend *backend; /* NULL: free; set and cleared by the recorder's thread */
	int64_t begun_ms;	 /* on the monotonic clock */
	pthread_t thread;
	bool is_done; /* changed with atomic operations */
};

struct interval_recorder {
	struct gateway *gateway;
	int64_t every_ms;
	pthread_t thread;
	struct keeper keepers[KEEPERS_MAX]; /* of the recorder's thread */
};

static void say(const struct interval_recorder *recorder, const struct error *err)
{
	char line[900];

	if (recorder->gateway->log == NULL)
		return;
	snprintf(line, sizeof line, "history: %s%s%s%s", err->message,
		err->hint[0] == '\0' ? "" : " (", err->hint, err->hint[0] == '\0' ? "" : ")");
	recorder->gateway->log(line);
}

static bool keep(struct gateway *gateway, struct backend *backend, const json_t *status,
	struct snapshot *snapshot, struct error *err)
{
	struct backend_answer answer;

	snapshot->time_ms = clock_realtime_ms();
	backend_memory_figures(backend, status, snapshot->bytes);
	snprintf(snapshot->target, sizeof snapshot->target, "%s", backend->name);
	recorder_identify(snapshot, &backend->target, status);
	snapshot->owner = backend->owner == USER_ANY ? STORE_NO_OWNER : (int64_t)backend->owner;
	if (backend->pid != 0)
		snapshot->pid = backend->pid;
	if (!backend_get_profile(backend, "/v1/profile", &answer, err))
		return false;
	/* It stays for days, and takes the room of others. */
	const bool ok =
		(heap_text_check(answer.body->data, answer.body->size, err) ||
			error_prefix(err, "%s", backend->target.label)) &&
		store_add(gateway->store, snapshot, answer.body->data, answer.body->size, err);
	blob_drop(answer.body);
	return ok;
}

bool interval_recorder_keep(struct gateway *gateway, struct backend *backend, const char *reason,
	struct snapshot *snapshot, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	*snapshot = (struct snapshot){ 0 };
	snprintf(snapshot->reason, sizeof snapshot->reason, "%s", reason);
	return backend_get_json(backend, "/v1/status", &status, err) &&
	       keep(gateway, backend, status, snapshot, err);
}

static bool keep_regularly(struct gateway *gateway, struct backend *backend, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct snapshot snapshot = { 0 };

	if (!backend_get_json(backend, "/v1/status", &status, err))
		return false;
	return !json_flag(status, "profiling.available") ||
	       keep(gateway, backend, status, &snapshot, err);
}

static bool is_over(const struct interval_recorder *recorder, int64_t patience_ms)
{
	struct pollfd poller = { .fd = recorder->gateway->stop_fd, .events = POLLIN };

	return poll(&poller, 1, patience_ms > INT32_MAX ? INT32_MAX : (int)patience_ms) > 0;
}

static void *work_as_keeper(void *context)
{
	struct keeper *const keeper = context;
	struct gateway *const gateway = keeper->recorder->gateway;
	struct error err;

	__atomic_add_fetch(&gateway->counters.active, 1, __ATOMIC_RELAXED);
	if (!keep_regularly(gateway, keeper->backend, &err))
		say(keeper->recorder, &err);
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
static struct keeper *find_free_keeper(struct interval_recorder *recorder)
{
	const int64_t recently_ms = clock_monotonic_ms() - LONG_MS;
	struct keeper *found = NULL;
	unsigned busy = 0;

	for (size_t i = 0; i < KEEPERS_MAX; i++) {
		struct keeper *const keeper = &recorder->keepers[i];
		if (keeper->backend != NULL && __atomic_load_n(&keeper->is_done, __ATOMIC_ACQUIRE))
			release(keeper);
		if (keeper->backend == NULL)
			found = keeper;
		else
			busy += keeper->begun_ms > recently_ms;
	}
	return busy < KEEPERS_AT_ONCE ? found : NULL;
}

static bool is_being_kept(const struct interval_recorder *recorder, const struct backend *backend)
{
	for (size_t i = 0; i < KEEPERS_MAX; i++) {
		if (recorder->keepers[i].backend == backend)
			return true;
	}
	return false;
}

static void start_keeper(
	struct keeper *keeper, struct interval_recorder *recorder, struct backend *backend)
{
	struct error ignored;

	*keeper = (struct keeper){
		.recorder = recorder,
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
static void keep_all(struct interval_recorder *recorder)
{
	CLEANUP(backend_list_cleanup) struct backend_list list = { 0 };

	backend_set_list(&recorder->gateway->backends, &list);
	for (size_t i = 0; i < list.count; i++) {
		struct keeper *keeper;
		while ((keeper = find_free_keeper(recorder)) == NULL) {
			if (is_over(recorder, LOOK_MS))
				return;
		}
		if (is_over(recorder, 0))
			return;
		/* Its last snapshot takes longer than the time between two. */
		if (!is_being_kept(recorder, list.items[i]))
			start_keeper(keeper, recorder, list.items[i]);
	}
}

static void *work(void *context)
{
	struct interval_recorder *const recorder = context;

	do {
		const int64_t begun_ms = clock_monotonic_ms();
		keep_all(recorder);
		const int64_t left_ms = begun_ms + recorder->every_ms - clock_monotonic_ms();
		if (is_over(recorder, left_ms < 0 ? 0 : left_ms))
			break;
	} while (true);
	for (size_t i = 0; i < KEEPERS_MAX; i++) {
		if (recorder->keepers[i].backend != NULL)
			release(&recorder->keepers[i]);
	}
	return NULL;
}

bool interval_recorder_start(struct gateway *gateway, int64_t every_ms,
	struct interval_recorder **ret, struct error *err)
{
	struct interval_recorder *const recorder = xcalloc(1, sizeof *recorder);

	recorder->gateway = gateway;
	recorder->every_ms = every_ms;
	if (!thread_start(&recorder->thread, STACK_BYTES, work, recorder,
		    "the thread of the history", err)) {
		free(recorder);
		return false;
	}
	*ret = recorder;
	return true;
}

void interval_recorder_join(struct interval_recorder *recorder)
{
	if (recorder == NULL)
		return;
	pthread_join(recorder->thread, NULL);
	free(recorder);
}
