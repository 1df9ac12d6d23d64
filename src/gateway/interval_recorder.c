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
	/* Jobs that run at a time; those that have run for long do not count. */
	JOBS_AT_ONCE = 4,
	SLOW_MS = 5 * 1000,
	JOBS_MAX = 64,
	/* Interval between looks for a free job. */
	LOOK_MS = 50,
};

/* Takes one snapshot of one target, on a thread of its own: a target that hangs delays no other. */
struct snapshot_job {
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
	struct snapshot_job jobs[JOBS_MAX]; /* of the recorder's thread */
};

static void log_error(const struct interval_recorder *recorder, const struct error *err)
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
	if (!backend_get_profile(backend, "/v1/profile", NULL, &answer, err))
		return false;
	/* It would stay for days and take space from others. */
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

static bool keep_snapshot(struct gateway *gateway, struct backend *backend, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct snapshot snapshot = { 0 };

	if (!backend_get_json(backend, "/v1/status", &status, err))
		return false;
	return !json_flag(status, "profiling.available") ||
	       keep(gateway, backend, status, &snapshot, err);
}

static bool await_stop(const struct interval_recorder *recorder, int64_t timeout_ms)
{
	struct pollfd poller = { .fd = recorder->gateway->stop_fd, .events = POLLIN };

	return poll(&poller, 1, timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms) > 0;
}

static void *run_job(void *context)
{
	struct snapshot_job *const job = context;
	struct gateway *const gateway = job->recorder->gateway;
	struct error err;

	__atomic_add_fetch(&gateway->counters.active, 1, __ATOMIC_RELAXED);
	if (!keep_snapshot(gateway, job->backend, &err))
		log_error(job->recorder, &err);
	if (store_take_replaced(gateway->store) && gateway->log != NULL)
		gateway->log("history: its folder was removed or replaced; it continues in the "
			     "folder that has its name now");
	__atomic_sub_fetch(&gateway->counters.active, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&job->is_done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void release(struct snapshot_job *job)
{
	pthread_join(job->thread, NULL);
	backend_drop(job->backend);
	job->backend = NULL;
}

/* NULL when enough jobs are running. */
static struct snapshot_job *find_free_job(struct interval_recorder *recorder)
{
	const int64_t recently_ms = clock_monotonic_ms() - SLOW_MS;
	struct snapshot_job *found = NULL;
	unsigned busy = 0;

	for (size_t i = 0; i < JOBS_MAX; i++) {
		struct snapshot_job *const job = &recorder->jobs[i];
		if (job->backend != NULL && __atomic_load_n(&job->is_done, __ATOMIC_ACQUIRE))
			release(job);
		if (job->backend == NULL)
			found = job;
		else
			busy += job->begun_ms > recently_ms;
	}
	return busy < JOBS_AT_ONCE ? found : NULL;
}

static bool has_job(const struct interval_recorder *recorder, const struct backend *backend)
{
	for (size_t i = 0; i < JOBS_MAX; i++) {
		if (recorder->jobs[i].backend == backend)
			return true;
	}
	return false;
}

static void start_job(
	struct snapshot_job *job, struct interval_recorder *recorder, struct backend *backend)
{
	struct error ignored;

	*job = (struct snapshot_job){
		.recorder = recorder,
		.backend = backend_share(backend),
		.begun_ms = clock_monotonic_ms(),
	};
	if (thread_start(&job->thread, STACK_BYTES, run_job, job, "a snapshot", &ignored))
		return;
	/* Without a thread, do it here. */
	run_job(job);
	backend_drop(job->backend);
	job->backend = NULL;
}

/* Returns when every target has a job, not when the jobs are done. */
static void start_jobs(struct interval_recorder *recorder)
{
	CLEANUP(backend_list_deinit) struct backend_list list = { 0 };

	backend_set_list(&recorder->gateway->backends, &list);
	for (size_t i = 0; i < list.count; i++) {
		struct snapshot_job *job;
		while ((job = find_free_job(recorder)) == NULL) {
			if (await_stop(recorder, LOOK_MS))
				return;
		}
		if (await_stop(recorder, 0))
			return;
		/* Its last snapshot may still be running. */
		if (!has_job(recorder, list.items[i]))
			start_job(job, recorder, list.items[i]);
	}
}

static void *work(void *context)
{
	struct interval_recorder *const recorder = context;

	do {
		const int64_t begun_ms = clock_monotonic_ms();
		start_jobs(recorder);
		const int64_t left_ms = begun_ms + recorder->every_ms - clock_monotonic_ms();
		if (await_stop(recorder, left_ms < 0 ? 0 : left_ms))
			break;
	} while (true);
	for (size_t i = 0; i < JOBS_MAX; i++) {
		if (recorder->jobs[i].backend != NULL)
			release(&recorder->jobs[i]);
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
