/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/merged_render.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "client/agent_client.h"

enum {
	/* Each profile is work for a process and for the machine. */
	PROFILES_AT_ONCE_MAX = 4,
	MERGE_QUEUE_MS = 90 * 1000,
};

/* What a process gave. */
struct merge_part {
	struct backend *backend; /* borrowed from the list */
	struct blob *profile;	 /* NULL when it gave none: see err */
	struct error err;
};

struct merge {
	struct gateway *gateway;
	const struct profile_render *render;
	struct waiting_clients *clients;
	struct backend_list list;
	struct target_poll status;
	struct merge_part *parts; /* as in the list */
	size_t given_count;
};

static void merge_deinit(struct merge *merge)
{
	for (size_t i = 0; merge->parts != NULL && i < merge->list.count; i++)
		blob_drop(merge->parts[i].profile);
	free(merge->parts);
	target_poll_deinit(&merge->status);
	backend_list_deinit(&merge->list);
}

static void remove_at(struct backend_list *list, size_t at)
{
	backend_drop(list->items[at]);
	list->items[at] = list->items[--list->count];
}

/* Leaves those of the name, or all that there are where all have one. */
static bool select_name(struct gateway *gateway, const char *name, struct backend_list *list)
{
	for (size_t i = 0; i < list->count;) {
		const bool is_wanted =
			name != NULL
				? backend_set_is_called(&gateway->backends, list->items[i], name)
				: strcmp(list->items[i]->name, list->items[0]->name) == 0;
		if (!is_wanted && name == NULL)
			return false;
		if (!is_wanted)
			remove_at(list, i);
		else
			i++;
	}
	return list->count > 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct backend *const left = *(struct backend *const *)a;
	const struct backend *const right = *(struct backend *const *)b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

static bool find_all(struct gateway *gateway, const struct request *request,
	struct backend_list *list, struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *only = NULL;
	const struct backend_set *const set = &gateway->backends;
	const char *const name = request->target_name != NULL ? request->target_name
				 : set->wanted_count > 0      ? set->wanted[0]
							      : NULL;

	const bool is_one = gateway_find(gateway, request, &only, err);
	/* The name is that of several, which is the purpose. */
	if (!is_one && err->kind != ERROR_STATE)
		return false;
	backend_set_list(&gateway->backends, list);
	if (is_one || !select_name(gateway, name, list)) {
		backend_list_deinit(list);
		if (!is_one)
			return false;
		list->items = xcalloc(1, sizeof *list->items);
		list->items[list->count++] = TAKE(only);
	}
	qsort(list->items, list->count, sizeof *list->items, by_pid);
	return true;
}

static void fetch_part(void *context, size_t i)
{
	struct merge *const merge = context;
	struct merge_part *const part = &merge->parts[i];
	struct backend_answer answer;

	if (merge->status.items[i].value == NULL)
		part->err = merge->status.items[i].err;
	else if (backend_get_profile(
			 part->backend, "/v1/profile", merge->clients, &answer, &part->err))
		part->profile = answer.body;
}

static bool fetch(struct merge *merge, struct error *err)
{
	/* Those that hang are not asked for a profile, which has a longer time limit. */
	target_poll_run(&merge->status, &merge->list, "/v1/status", NULL);
	merge->parts = xcalloc(merge->list.count, sizeof *merge->parts);
	for (size_t i = 0; i < merge->list.count; i++)
		merge->parts[i].backend = merge->list.items[i];
	gateway_work_together(merge->list.count, PROFILES_AT_ONCE_MAX, fetch_part, merge);
	for (size_t i = 0; i < merge->list.count; i++)
		merge->given_count += merge->parts[i].profile != NULL;
	if (merge->given_count == 0)
		*err = merge->parts[0].err;
	return merge->given_count > 0;
}

/* "3 processes", or "2 of 3 processes (redis-server[12]: it is stopped)". */
static char *describe_count(const struct merge *merge)
{
	const struct merge_part *missing = NULL;
	const size_t count = merge->list.count;

	for (size_t i = 0; i < count && missing == NULL; i++)
		missing = merge->parts[i].profile == NULL ? &merge->parts[i] : NULL;
	if (missing == NULL)
		return xasprintf("%zu process%s", count, count == 1 ? "" : "es");
	const char *const label = missing->backend->target.label;
	const bool is_named = strstr(missing->err.message, label) != NULL;
	return xasprintf("%zu of %zu processes (%s%s%s)", merge->given_count, count,
		is_named ? "" : label, is_named ? "" : ": ", missing->err.message);
}

static size_t count_inactive(const struct merge *merge)
{
	size_t count = 0;

	for (size_t i = 0; i < merge->list.count; i++)
		count += merge->parts[i].profile != NULL &&
			 json_is_false(json_at(merge->status.items[i].value, "profiling.active"));
	return count;
}

/* What pprof has no field for. */
static char *make_remark(const struct merge *merge, const char *count_text)
{
	const size_t inactive = count_inactive(merge);

	if (inactive == 0)
		return xasprintf("the sum of %s", count_text);
	return xasprintf("the sum of %s; sampling is off in %zu of them", count_text, inactive);
}

static void add_headings(struct command_line *line, const struct merge *merge)
{
	CLEANUP(free_cleanup) char *count_text = describe_count(merge);
	CLEANUP(free_cleanup) char *remark = make_remark(merge, count_text);
	CLEANUP(free_cleanup) char *subtitle = NULL;
	char time[PROFILE_TIME_BYTES], number[32];

	subtitle = xasprintf("%s, by %s", profile_time_describe(time), count_text);
	command_line_add(line, "--title", merge->list.items[0]->name);
	command_line_add(line, "--subtitle", subtitle);
	snprintf(number, sizeof number, "%" PRId64, clock_realtime_ms());
	command_line_add(line, "--when-ms", number);
	command_line_add(line, "--remark", remark);
}

/* The profiles as inputs of a worker, and the processes that their files are read through. */
static size_t add_inputs(const struct merge *merge, struct command_line *line, struct blob **inputs,
	const char **names)
{
	CLEANUP(buffer_deinit) struct buffer pids = BUFFER_OR_EXIT;
	char path[48];
	size_t count = 0;

	for (size_t i = 0; i < merge->list.count; i++) {
		const struct merge_part *const part = &merge->parts[i];
		if (part->profile == NULL)
			continue;
		buffer_printf(&pids, "%s%d", count == 0 ? "" : ",", (int)part->backend->pid);
		inputs[count] = part->profile;
		names[count++] = part->backend->target.label;
	}
	command_line_add(line, "--pids", buffer_string(&pids));
	for (size_t i = 0; i < count; i++) {
		snprintf(path, sizeof path, "/proc/self/fd/%zu", WORKER_FIRST_FD + i);
		command_line_add(line, path, NULL);
	}
	return count;
}

static bool render(const struct merge *merge, struct waiting_clients *clients, struct blob **blob,
	struct error *err)
{
	CLEANUP(free_cleanup)
	struct blob **inputs = xcalloc(merge->given_count, sizeof *inputs);
	CLEANUP(free_cleanup)
	const char **names = xcalloc(merge->given_count, sizeof *names);
	struct command_line line = { 0 };

	profile_render_add_options(merge->render, &line);
	add_headings(&line, merge);
	const size_t count = add_inputs(merge, &line, inputs, names);
	const struct worker_job job = {
		.owner = merge->list.items[0]->owner,
		.clients = clients,
		.arguments = line.arguments,
		.inputs = inputs,
		.names = names,
		.input_count = count,
	};
	const bool ok = worker_run(&merge->gateway->workers, &job, blob, err);
	command_line_deinit(&line);
	return ok;
}

static bool is_running(const struct merge_queue *queue, uid_t owner)
{
	const struct merge_turn *turn = queue->running;

	while (turn != NULL && turn->owner != owner)
		turn = turn->next;
	return turn != NULL;
}

static bool enter_queue(struct merge_queue *queue, struct merge_turn *turn, struct error *err)
{
	const struct timespec deadline = clock_timespec(clock_monotonic_ms() + MERGE_QUEUE_MS);
	int failure = 0;

	pthread_mutex_lock(&queue->mutex);
	while (is_running(queue, turn->owner) && failure == 0)
		failure = pthread_cond_timedwait(&queue->changed, &queue->mutex, &deadline);
	const bool is_ours = !is_running(queue, turn->owner);
	if (is_ours) {
		turn->next = queue->running;
		queue->running = turn;
	}
	pthread_mutex_unlock(&queue->mutex);
	if (is_ours)
		return true;
	error_set(err, ERROR_TIMEOUT, "too many profiles are being added up");
	return error_hint(err, "try again in a moment");
}

static void leave_queue(struct merge_queue *queue, const struct merge_turn *turn)
{
	struct merge_turn **at = &queue->running;

	pthread_mutex_lock(&queue->mutex);
	while (*at != turn)
		at = &(*at)->next;
	*at = turn->next;
	/* Those that wait are of several users. */
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->mutex);
}

static bool make_merge(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err)
{
	struct merge *const merge = context;
	struct merge_turn turn = { .owner = merge->list.items[0]->owner };

	merge->clients = clients;
	if (!enter_queue(&merge->gateway->merges, &turn, err))
		return false;
	const bool ok = fetch(merge, err) && render(merge, clients, blob, err);
	leave_queue(&merge->gateway->merges, &turn);
	return ok;
}

/* The processes are part of it: one that is there for a part of them is another sum. */
static char *make_key(const struct merge *merge)
{
	CLEANUP(buffer_deinit) struct buffer owner = BUFFER_OR_EXIT;

	buffer_append_string(&owner, "sum");
	for (size_t i = 0; i < merge->list.count; i++)
		buffer_printf(&owner, "+%" PRIu64, merge->list.items[i]->generation);
	return profile_render_key(buffer_string(&owner), merge->render);
}

bool merged_render_get(struct gateway *gateway, const struct request *request,
	const struct profile_render *render_wanted, struct blob **blob, struct error *err)
{
	CLEANUP(merge_deinit) struct merge merge = { .gateway = gateway, .render = render_wanted };
	CLEANUP(free_cleanup) char *key = NULL;

	if (render_wanted->format->option == NULL) {
		error_set(err, ERROR_USAGE, "the profiles of several processes have no raw form");
		return error_hint(err, "leave out merge=1, or use format=pprof");
	}
	if (!find_all(gateway, request, &merge.list, err))
		return false;
	key = make_key(&merge);
	return result_cache_get(&gateway->render_cache, key, merge.list.items[0]->owner, false,
		request->client_fd, make_merge, &merge, blob, err);
}
