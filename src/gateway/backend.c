/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/user_name.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/request.h"

/* A request that waits for a read. */
struct read_waiter {
	struct read_waiter *next;
	struct waiting_clients *clients; /* NULL: they never leave */
};

/* A read in progress: the thread that began it fills it, the others wait. */
struct shared_read {
	struct shared_read *next;
	struct backend *backend;
	struct read_waiter *waiters;
	bool is_cancelled; /* all waiters' clients have left: it takes no more */
	const char *path;
	unsigned waiting; /* threads that still use it, including the first */
	bool is_done;
	bool ok;
	struct backend_answer answer;
	struct error err;
};

struct backend *backend_new(const struct target *target, const char *name)
{
	struct backend *const backend = xmalloc(sizeof *backend);

	*backend = (struct backend){
		.references = 1,
		.target = *target,
		.owner = target->kind == TARGET_AGENT ? target->owner : USER_ANY,
		.pid = target->process.pid,
	};
	snprintf(backend->name, sizeof backend->name, "%s", name);
	pthread_mutex_init(&backend->mutex, NULL);
	clock_condition_init(&backend->changed);
	return backend;
}

struct backend *backend_share(struct backend *backend)
{
	__atomic_add_fetch(&backend->references, 1, __ATOMIC_RELAXED);
	return backend;
}

void backend_drop(struct backend *backend)
{
	if (backend == NULL || __atomic_sub_fetch(&backend->references, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	pthread_cond_destroy(&backend->changed);
	pthread_mutex_destroy(&backend->mutex);
	live_metrics_deinit(&backend->history);
	json_decref(backend->identity);
	free(backend);
}

static bool fail_busy(const struct backend *backend, struct error *err)
{
	error_set(err, ERROR_TIMEOUT, "%s did not answer in time", backend->target.label);
	return error_hint(err, "it is stopped, overloaded or being debugged; try again later");
}

/* Of all targets; changed with atomic operations only. */
static unsigned all_callers;

/* Each caller holds a thread and a connection of the gateway. With the mutex held. */
static bool join_callers(struct backend *backend, bool is_profile, struct error *err)
{
	const unsigned all = __atomic_load_n(&all_callers, __ATOMIC_RELAXED);

	if (backend->callers[is_profile] + all < BACKEND_CALLERS_MAX) {
		backend->callers[is_profile]++;
		__atomic_add_fetch(&all_callers, 1, __ATOMIC_RELAXED);
		return true;
	}
	error_set(err, ERROR_TIMEOUT, "too many requests wait for %s", backend->target.label);
	return error_hint(err, "try again in a moment");
}

/* With the mutex held. */
static void leave_callers(struct backend *backend, bool is_profile)
{
	backend->callers[is_profile]--;
	__atomic_sub_fetch(&all_callers, 1, __ATOMIC_RELAXED);
}

static bool fail_cancelled(const struct backend *backend, struct error *err)
{
	return error_set(err, ERROR_TIMEOUT, "%s: cancelled", backend->target.label);
}

/* Whether nothing waits for the read any more; with the mutex held. */
static bool have_waiters_left(struct shared_read *shared)
{
	const struct read_waiter *waiter = shared->waiters;

	while (waiter != NULL && waiting_clients_have_left(waiter->clients))
		waiter = waiter->next;
	shared->is_cancelled = shared->is_cancelled || waiter == NULL;
	return shared->is_cancelled;
}

static bool is_read_cancelled(void *context)
{
	struct shared_read *const shared = context;

	pthread_mutex_lock(&shared->backend->mutex);
	const bool is_cancelled = have_waiters_left(shared);
	pthread_mutex_unlock(&shared->backend->mutex);
	return is_cancelled;
}

/* Waits for a change, but not longer than clients may be left alone; with the mutex held. */
static void await_change(struct backend *backend, int64_t deadline_ms)
{
	const int64_t look_ms = clock_monotonic_ms() + WAITING_CLIENTS_LOOK_MS;
	const struct timespec until = clock_timespec(look_ms < deadline_ms ? look_ms : deadline_ms);

	pthread_cond_timedwait(&backend->changed, &backend->mutex, &until);
}

/*
 * Waits for one of the agent's few connections; with the mutex held. `shared` is what it is for,
 * NULL for a call of one request.
 */
static bool acquire_call(
	struct backend *backend, struct shared_read *shared, int64_t deadline_ms, struct error *err)
{
	while (backend->calls >= BACKEND_CALLS_MAX) {
		if (shared != NULL && have_waiters_left(shared))
			return fail_cancelled(backend, err);
		if (clock_monotonic_ms() >= deadline_ms)
			return fail_busy(backend, err);
		await_change(backend, deadline_ms);
	}
	backend->calls++;
	return true;
}

static void release_call(struct backend *backend)
{
	pthread_mutex_lock(&backend->mutex);
	backend->calls--;
	pthread_cond_broadcast(&backend->changed);
	pthread_mutex_unlock(&backend->mutex);
}

/* What a failed call means for a client of the gateway. */
static bool explain(
	const struct backend *backend, const struct http_answer *answer, struct error *err)
{
	const bool is_answer = answer->status >= 400;

	if (err->errnum == ETIMEDOUT || err->errnum == EAGAIN)
		return fail_busy(backend, err);
	if (!is_answer && err->kind == ERROR_NOT_FOUND) {
		error_set(err, ERROR_NOT_FOUND, "%s has gone", backend->target.label);
		return error_hint(err, "/targets lists the targets");
	}
	/* A broken connection, or an agent with too many, is temporary; a request that is too long
	 * for any agent is not. */
	if (answer->status == 503 || (!is_answer && err->kind != ERROR_DENIED &&
					     err->kind != ERROR_USAGE && !reply_is_shortage(err)))
		err->kind = ERROR_TIMEOUT;
	return false;
}

struct byte_budget backend_scratch_budget = { .limit = BACKEND_SCRATCH_BYTES };
struct byte_budget backend_memory_budget = { .limit = BACKEND_MEMORY_BYTES };

/* The call itself: the body goes to memory, or to a scratch file for a profile. */
static bool call_agent(struct backend *backend, const char *method, const char *path,
	struct shared_read *shared, bool is_profile, int64_t limit_ms, struct http_answer *answer,
	struct blob **body, struct error *err)
{
	CLEANUP(fd_cleanup) int fd = -1;

	if (is_profile && !blob_open_scratch(&fd, err))
		return false;
	const struct agent_call call = {
		.method = method,
		.path = path,
		.out_fd = fd,
		.out_name = is_profile ? "a scratch file" : NULL,
		.total_ms = limit_ms,
		.limit = is_profile ? BACKEND_PROFILE_BYTES : agent_answer_limit(path),
		.budget = is_profile ? &backend_scratch_budget : &backend_memory_budget,
		.is_cancelled = shared == NULL ? NULL : is_read_cancelled,
		.cancel_context = shared,
	};
	if (!agent_call(&backend->target, &call, answer, err))
		return explain(backend, answer, err);
	if (!is_profile)
		*body = blob_take(&answer->body);
	else if (!agent_append_process_name(backend->target.process.name, fd, call.out_name, err) ||
		 !blob_take_fd(TAKE_FD(fd), body, err))
		return false;
	(*body)->budget = call.budget;
	(*body)->budget_bytes = http_answer_take_budget(answer);
	return true;
}

static bool call_limited(struct backend *backend, const char *method, const char *path,
	struct shared_read *shared, bool is_profile, int64_t limit_ms, struct http_answer *answer,
	struct blob **body, struct error *err)
{
	const int64_t deadline_ms = clock_monotonic_ms() + limit_ms;

	pthread_mutex_lock(&backend->mutex);
	const bool has_call = acquire_call(backend, shared, deadline_ms, err);
	pthread_mutex_unlock(&backend->mutex);
	if (!has_call)
		return false;
	const int64_t left_ms = deadline_ms - clock_monotonic_ms();
	const bool ok = call_agent(backend, method, path, shared, is_profile,
		left_ms < 1 ? 1 : left_ms, answer, body, err);
	release_call(backend);
	return ok;
}

static struct shared_read *find_read(struct backend *backend, const char *path)
{
	struct shared_read *shared = backend->reads;

	while (shared != NULL &&
		(shared->is_done || shared->is_cancelled || strcmp(shared->path, path) != 0))
		shared = shared->next;
	return shared;
}

static void remove_read(struct backend *backend, struct shared_read *shared)
{
	struct shared_read **place = &backend->reads;

	while (*place != shared)
		place = &(*place)->next;
	*place = shared->next;
}

static void remove_waiter(struct shared_read *shared, const struct read_waiter *waiter)
{
	struct read_waiter **place = &shared->waiters;

	while (*place != waiter)
		place = &(*place)->next;
	*place = waiter->next;
}

/* Waits for the same read by another request; with the mutex held. */
static bool join_read(struct backend *backend, struct shared_read *shared,
	struct waiting_clients *clients, int64_t limit_ms, struct backend_answer *answer,
	struct error *err)
{
	const int64_t deadline_ms = clock_monotonic_ms() + limit_ms;
	struct read_waiter waiter = { shared->waiters, clients };
	bool is_cancelled = false;
	bool ok = false;

	shared->waiters = &waiter;
	shared->waiting++;
	while (!shared->is_done && !is_cancelled && clock_monotonic_ms() < deadline_ms) {
		await_change(backend, deadline_ms);
		is_cancelled = waiting_clients_have_left(clients);
	}
	if (!shared->is_done) {
		if (is_cancelled)
			fail_cancelled(backend, err);
		else
			fail_busy(backend, err);
	} else if (!shared->ok) {
		*err = shared->err;
	} else {
		*answer = shared->answer;
		answer->body = blob_share(shared->answer.body);
		ok = true;
	}
	remove_waiter(shared, &waiter);
	shared->waiting--;
	pthread_cond_broadcast(&backend->changed);
	return ok;
}

static void perform_read(
	struct backend *backend, struct shared_read *shared, bool is_profile, int64_t limit_ms)
{
	const int64_t began_ns = clock_monotonic_ns();
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };

	shared->ok = call_limited(backend, "GET", shared->path, shared, is_profile, limit_ms,
		&answer, &shared->answer.body, &shared->err);
	if (!shared->ok)
		return;
	const char *const dump_ms = http_answer_field(&answer, "Heapctl-Dump-Ms");
	const char *const time_ms = http_answer_field(&answer, "Heapctl-Time-Ms");
	shared->answer.time_ms = time_ms != NULL ? strtoll(time_ms, NULL, 10) : 0;
	shared->answer.milliseconds = dump_ms != NULL
					      ? strtod(dump_ms, NULL)
					      : (double)(clock_monotonic_ns() - began_ns) / 1e6;
}

static bool get(struct backend *backend, const char *path, struct waiting_clients *clients,
	bool is_profile, int64_t limit_ms, struct backend_answer *answer, struct error *err)
{
	struct read_waiter waiter = { .clients = clients };
	struct shared_read own = {
		.backend = backend, .path = path, .waiting = 1, .waiters = &waiter
	};

	pthread_mutex_lock(&backend->mutex);
	if (!join_callers(backend, is_profile, err)) {
		pthread_mutex_unlock(&backend->mutex);
		return false;
	}
	struct shared_read *const other = find_read(backend, path);
	if (other != NULL) {
		const bool ok = join_read(backend, other, clients, limit_ms, answer, err);
		leave_callers(backend, is_profile);
		pthread_mutex_unlock(&backend->mutex);
		return ok;
	}
	own.next = backend->reads;
	backend->reads = &own;
	pthread_mutex_unlock(&backend->mutex);

	perform_read(backend, &own, is_profile, limit_ms);

	pthread_mutex_lock(&backend->mutex);
	own.is_done = true;
	own.waiting--;
	pthread_cond_broadcast(&backend->changed);
	/* The others use this stack frame. */
	while (own.waiting > 0)
		pthread_cond_wait(&backend->changed, &backend->mutex);
	remove_read(backend, &own);
	leave_callers(backend, is_profile);
	pthread_mutex_unlock(&backend->mutex);
	if (own.ok)
		*answer = own.answer;
	else
		*err = own.err;
	return own.ok;
}

bool backend_get(struct backend *backend, const char *path, int64_t limit_ms,
	struct backend_answer *answer, struct error *err)
{
	return get(backend, path, NULL, false, limit_ms, answer, err);
}

bool backend_get_profile(struct backend *backend, const char *path, struct waiting_clients *clients,
	struct backend_answer *answer, struct error *err)
{
	return get(backend, path, clients, true, BACKEND_PROFILE_MS, answer, err);
}

static bool parse_object(
	const struct backend *backend, const struct blob *body, json_t **value, struct error *err)
{
	json_error_t problem;
	json_t *const parsed = agent_json_parse(body->data, body->size, 0, &problem);

	if (json_is_object(parsed)) {
		*value = parsed;
		return true;
	}
	json_decref(parsed);
	error_set(err, ERROR_TIMEOUT, "the answer of %s is not a JSON object: %s",
		backend->target.label, parsed == NULL ? problem.text : "something else");
	return error_hint(err, "agents answer otherwise: check which program answers there");
}

static bool get_json(struct backend *backend, const char *path, int64_t limit_ms, json_t **value,
	struct error *err)
{
	struct backend_answer answer;

	if (!backend_get(backend, path, limit_ms, &answer, err))
		return false;
	const bool ok = parse_object(backend, answer.body, value, err);
	blob_drop(answer.body);
	return ok;
}

bool backend_get_json(struct backend *backend, const char *path, json_t **value, struct error *err)
{
	return get_json(backend, path, BACKEND_READ_MS, value, err);
}

json_t *backend_identity(struct backend *backend, int64_t limit_ms)
{
	enum { AGAIN_MS = 60 * 1000 };
	CLEANUP(json_cleanup) json_t *status = NULL;
	const int64_t now_ms = clock_monotonic_ms();
	struct error ignored;

	pthread_mutex_lock(&backend->mutex);
	json_t *known = json_incref(backend->identity);
	const bool is_due =
		known == NULL && limit_ms > 0 &&
		(backend->identity_asked_ms == 0 || now_ms - backend->identity_asked_ms > AGAIN_MS);
	if (is_due)
		backend->identity_asked_ms = now_ms;
	pthread_mutex_unlock(&backend->mutex);
	if (!is_due || !get_json(backend, "/v1/status", limit_ms, &status, &ignored))
		return known;
	/* An agent of an earlier version says nothing. */
	json_t *const environment = json_object_get(status, "environment");
	known = json_pack("{s:o}", "environment",
		json_is_object(environment) ? json_incref(environment) : json_object());
	pthread_mutex_lock(&backend->mutex);
	json_decref(backend->identity);
	backend->identity = json_incref(known);
	pthread_mutex_unlock(&backend->mutex);
	return known;
}

bool backend_post(struct backend *backend, const char *path, struct blob **body, bool *created,
	struct error *err)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };

	pthread_mutex_lock(&backend->mutex);
	const bool has_joined = join_callers(backend, false, err);
	pthread_mutex_unlock(&backend->mutex);
	if (!has_joined)
		return false;
	const bool ok = call_limited(
		backend, "POST", path, NULL, false, BACKEND_CHANGE_MS, &answer, body, err);
	pthread_mutex_lock(&backend->mutex);
	leave_callers(backend, false);
	pthread_mutex_unlock(&backend->mutex);
	if (!ok)
		return false;
	if (created != NULL)
		*created = answer.status == 201;
	return true;
}

bool backend_post_json(
	struct backend *backend, const char *path, json_t **value, bool *created, struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *body = NULL;

	return backend_post(backend, path, &body, created, err) &&
	       parse_object(backend, body, value, err);
}

uint64_t backend_resident_bytes(const struct backend *backend)
{
	struct process process;
	struct error err;

	if (backend->target.kind != TARGET_AGENT || backend->pid == 0 ||
		!process_read(backend->pid, &process, &err))
		return 0;
	return process.resident_bytes;
}

void backend_memory_figures(
	const struct backend *backend, const json_t *status, uint64_t bytes[FIGURES])
{
	char path[64];

	for (size_t i = 0; i < FIGURE_RSS; i++) {
		snprintf(path, sizeof path, "memory.%s", memory_figure_names[i]);
		bytes[i] = (uint64_t)json_number(status, path);
	}
	bytes[FIGURE_RSS] = backend_resident_bytes(backend);
}

void live_metrics_deinit(struct live_metrics *history)
{
	free(history->samples);
	free(history->misses);
	*history = (struct live_metrics){ 0 };
}

static const struct live_sample *newest(const struct live_metrics *history)
{
	const size_t last =
		(history->next + LIVE_METRICS_SAMPLES_MAX - 1) % LIVE_METRICS_SAMPLES_MAX;

	return history->count == 0 ? NULL : &history->samples[last];
}

bool live_metrics_is_due(const struct live_metrics *history, int64_t now_ms)
{
	const struct live_sample *const last = newest(history);

	/* A clock that was set back must not stop the curves. */
	return last == NULL || now_ms < last->time_ms ||
	       now_ms - last->time_ms >= LIVE_METRICS_STEP_MS - LIVE_METRICS_STEP_MS / 10;
}

void live_metrics_add(struct live_metrics *history, const struct live_sample *sample)
{
	if (history->samples == NULL)
		history->samples = xcalloc(LIVE_METRICS_SAMPLES_MAX, sizeof *history->samples);
	history->samples[history->next] = *sample;
	history->next = (history->next + 1) % LIVE_METRICS_SAMPLES_MAX;
	if (history->count < LIVE_METRICS_SAMPLES_MAX)
		history->count++;
}

void live_metrics_add_miss(struct live_metrics *history, int64_t time_ms, const char *reason)
{
	const struct live_sample *const sample = newest(history);
	const size_t last =
		(history->miss_next + LIVE_METRICS_MISSES_MAX - 1) % LIVE_METRICS_MISSES_MAX;
	struct live_miss miss = { .time_ms = time_ms };

	if (history->misses == NULL)
		history->misses = xcalloc(LIVE_METRICS_MISSES_MAX, sizeof *history->misses);
	snprintf(miss.reason, sizeof miss.reason, "%s", reason);
	if (history->miss_count > 0 && strcmp(history->misses[last].reason, miss.reason) == 0 &&
		(sample == NULL || history->misses[last].time_ms > sample->time_ms))
		return;
	history->misses[history->miss_next] = miss;
	history->miss_next = (history->miss_next + 1) % LIVE_METRICS_MISSES_MAX;
	if (history->miss_count < LIVE_METRICS_MISSES_MAX)
		history->miss_count++;
}

static void write_misses(
	const struct live_metrics *history, int64_t since_ms, struct json_writer *json)
{
	const size_t first = history->miss_next + LIVE_METRICS_MISSES_MAX - history->miss_count;

	json_member_array(json, "misses");
	for (size_t i = 0; i < history->miss_count; i++) {
		const struct live_miss *const miss =
			&history->misses[(first + i) % LIVE_METRICS_MISSES_MAX];
		if (miss->time_ms <= since_ms)
			continue;
		json_array_begin(json);
		json_put_integer(json, miss->time_ms);
		json_put_string(json, miss->reason);
		json_array_end(json);
	}
	json_array_end(json);
}

static void write_sample(const struct live_sample *sample, struct json_writer *json)
{
	json_array_begin(json);
	json_put_integer(json, sample->time_ms);
	for (size_t i = 0; i < FIGURES; i++)
		json_put_unsigned(json, sample->bytes[i]);
	json_array_end(json);
}

void live_metrics_write(
	const struct live_metrics *history, int64_t since_ms, struct json_writer *json)
{
	const size_t first = history->next + LIVE_METRICS_SAMPLES_MAX - history->count;

	json_object_begin(json);
	json_member_array(json, "figures");
	for (size_t i = 0; i < FIGURES; i++)
		json_put_string(json, memory_figure_names[i]);
	json_array_end(json);
	json_member_array(json, "samples");
	for (size_t i = 0; i < history->count; i++) {
		const struct live_sample *const sample =
			&history->samples[(first + i) % LIVE_METRICS_SAMPLES_MAX];
		if (sample->time_ms > since_ms)
			write_sample(sample, json);
	}
	json_array_end(json);
	write_misses(history, since_ms, json);
	json_object_end(json);
}
