/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/overview: how the memory of all processes moved lately, by the figures in the history. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/memory_drift.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "gateway/gateway.h"
#include "gateway/handlers.h"
#include "store/store_recent.h"

enum {
	SPAN_MS = 24 * 3600 * 1000,
	STEPS = 96, /* points of a process */
	/* Where so few have come that growth is not known, closer together. */
	YOUNG_STEPS = 75,
	YOUNG_MS = (MEMORY_DRIFT_POINTS_MIN * SPAN_MS) / STEPS,
	ROWS_MAX = 500 * STEPS,
	KEPT_MS = 15 * 1000, /* an answer, for all pages that are open */
};

struct overview_process {
	char *name;
	int64_t pid, started_ms;
	const char *figure;
	struct memory_point points[STEPS + 1];
	int64_t times_ms[STEPS + 1];
	size_t count;
	int64_t last_ms;
	char *last_reason;
	struct memory_drift drift;
	bool has_drift;
};

struct overview {
	struct overview_process *items;
	size_t count, capacity;
	size_t tested; /* of which growth is known */
};

static void overview_deinit(struct overview *overview)
{
	for (size_t i = 0; i < overview->count; i++) {
		free(overview->items[i].name);
		free(overview->items[i].last_reason);
	}
	free(overview->items);
}

static bool is_same(const struct overview_process *process, const struct store_recent *recent)
{
	return process->pid == recent->pid && process->started_ms == recent->started_ms &&
	       strcmp(process->name, recent->target) == 0;
}

/* What the program has allocated, where its allocator says so. */
static void add(void *context, const struct store_recent *recent)
{
	struct overview *const overview = context;
	struct overview_process *process =
		overview->count == 0 ? NULL : &overview->items[overview->count - 1];

	if (process == NULL || !is_same(process, recent)) {
		process = XAPPEND(overview->items, overview->count, overview->capacity);
		*process = (struct overview_process){ .name = xstrdup(recent->target),
			.pid = recent->pid,
			.started_ms = recent->started_ms,
			.figure = recent->allocated != 0 ? "allocated" : "rss" };
	}
	free(process->last_reason);
	process->last_reason = xstrdup(recent->reason);
	process->last_ms = recent->time_ms;
	const uint64_t bytes = process->figure[0] == 'a' ? recent->allocated : recent->rss;
	if (bytes == 0 || process->count > STEPS)
		return;
	process->times_ms[process->count] = recent->time_ms;
	process->points[process->count++] =
		(struct memory_point){ (double)recent->time_ms / 3600000.0, (double)bytes };
}

static bool is_young(const struct overview_process *process)
{
	return process->count > 0 && process->count < MEMORY_DRIFT_POINTS_MIN;
}

static void take_points(struct overview_process *process, const struct overview *closer)
{
	for (size_t i = 0; i < closer->count; i++) {
		const struct overview_process *const found = &closer->items[i];
		if (found->pid != process->pid || found->started_ms != process->started_ms ||
			strcmp(found->name, process->name) != 0 ||
			found->figure[0] != process->figure[0] || found->count <= process->count)
			continue;
		memcpy(process->points, found->points, sizeof process->points);
		memcpy(process->times_ms, found->times_ms, sizeof process->times_ms);
		process->count = found->count;
		return;
	}
}

/* Of a process that is known for an hour, as that is all there is. */
static bool add_closer_points(
	struct store *store, int64_t now_ms, struct overview *overview, struct error *err)
{
	CLEANUP(overview_deinit) struct overview closer = { 0 };
	bool is_any_young = false;

	for (size_t i = 0; i < overview->count; i++)
		is_any_young = is_any_young || is_young(&overview->items[i]);
	if (!is_any_young)
		return true;
	if (!store_each_recent(
		    store, now_ms - YOUNG_MS, YOUNG_MS / YOUNG_STEPS, ROWS_MAX, add, &closer, err))
		return false;
	for (size_t i = 0; i < overview->count; i++) {
		if (is_young(&overview->items[i]))
			take_points(&overview->items[i], &closer);
	}
	return true;
}

static void put_growth(struct json_writer *json, const struct overview *overview,
	const struct overview_process *process)
{
	json_key(json, "growth");
	if (!process->has_drift) {
		json_put_null(json);
		return;
	}
	const struct memory_drift *const drift = &process->drift;
	json_object_begin(json);
	json_member_real(json, "rate_per_hour", drift->rate);
	json_member_array(json, "interval95");
	json_put_real(json, drift->low);
	json_put_real(json, drift->high);
	json_array_end(json);
	/* Among many processes some always look as if they grew. */
	json_member_bool(json, "is_significant",
		drift->rate > 0 && drift->p * (double)overview->tested < 0.05);
	json_object_end(json);
}

static void put_process(struct json_writer *json, const struct overview *overview,
	const struct overview_process *process)
{
	json_object_begin(json);
	json_member_string(json, "name", process->name);
	json_member_integer(json, "pid", process->pid);
	json_member_integer(json, "started_ms", process->started_ms);
	json_member_string(json, "figure", process->figure);
	json_member_array(json, "points");
	for (size_t i = 0; i < process->count; i++) {
		json_array_begin(json);
		json_put_integer(json, process->times_ms[i]);
		json_put_unsigned(json, (uint64_t)process->points[i].bytes);
		json_array_end(json);
	}
	json_array_end(json);
	put_growth(json, overview, process);
	json_member_integer(json, "last_ms", process->last_ms);
	json_member_string(json, "last_reason", process->last_reason);
	json_object_end(json);
}

static bool make_overview(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err)
{
	CLEANUP(overview_deinit) struct overview overview = { 0 };
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	struct gateway *const gateway = context;
	const int64_t now_ms = clock_realtime_ms(), from_ms = now_ms - SPAN_MS;
	struct json_writer json;

	(void)clients;
	if (!store_each_recent(
		    gateway->store, from_ms, SPAN_MS / STEPS, ROWS_MAX, add, &overview, err) ||
		!add_closer_points(gateway->store, now_ms, &overview, err))
		return false;
	for (size_t i = 0; i < overview.count; i++) {
		struct overview_process *const process = &overview.items[i];
		process->has_drift =
			memory_drift_find(process->points, process->count, &process->drift);
		/* What never moved cannot look as if it grew. */
		overview.tested += process->has_drift && process->drift.p < 1;
	}
	json_init(&json, &body);
	json_object_begin(&json);
	json_member_integer(&json, "from_ms", from_ms);
	json_member_array(&json, "processes");
	for (size_t i = 0; i < overview.count; i++)
		put_process(&json, &overview, &overview.items[i]);
	json_array_end(&json);
	json_object_end(&json);
	*blob = blob_take(&body);
	return true;
}

bool api_overview(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *result = NULL;

	if (!gateway_check_history(gateway, err))
		return false;
	CLEANUP(free_cleanup)
	char *key = xasprintf("overview/%" PRId64, clock_monotonic_ms() / KEPT_MS);
	if (!result_cache_get(&gateway->render_cache, key, USER_ANY, true, request->client_fd,
		    make_overview, gateway, &result, err))
		return false;
	reply_blob(reply, 200, "application/json", result);
	return true;
}
