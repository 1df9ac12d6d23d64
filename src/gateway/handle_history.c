/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/archive, timeline, snapshot and trend: what serve --history has kept. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "gateway/result_cache.h"
#include "gateway/gateway.h"
#include "gateway/handlers.h"
#include "gateway/profile_render.h"
#include "store/notes.h"
#include "store/store.h"

#define JSON_TYPE "application/json"

static struct store_query make_query(const struct request *request, const char *name)
{
	return (struct store_query){
		.target = name,
		.from_ms = request_number(request, "from_ms", 0),
		.to_ms = request_number(request, "to_ms", INT64_MAX),
		.pid = request_number(request, "pid", 0),
		.started_ms = request_number(request, "started_ms", 0),
		.captured = request_number(request, "captured", 0) != 0,
	};
}

/* `most` is its former name, until 0.3. */
static int64_t max_of(const struct request *request, int64_t otherwise)
{
	return request_number(request, "max", request_number(request, "most", otherwise));
}

static void start_object(struct json_writer *json, struct buffer *body, const char *key)
{
	json_init(json, body);
	json_object_begin(json);
	json_key(json, key);
}

bool api_archive(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	struct json_writer json;

	(void)request;
	start_object(&json, &body, "targets");
	if (!gateway_check_history(gateway, err) || !store_list_targets(gateway->store, &json, err))
		return false;
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
	return true;
}

/* The array again as `moments`, until 0.3, for clients that do not use `max`. */
static void put_former_name(struct json_writer *json, const struct buffer *body, size_t begin)
{
	CLEANUP(free_cleanup) char *snapshots = xstrndup(body->data + begin, body->size - begin);

	json_key(json, "moments");
	json_put_raw(json, snapshots, strlen(snapshots));
}

bool api_timeline(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	struct json_writer json;
	char name[128];
	size_t total = 0;

	if (!gateway_find_history(gateway, request, name, err))
		return false;
	const struct store_query query = make_query(request, name);
	start_object(&json, &body, "snapshots");
	const size_t begin = body.size;
	if (!store_list(gateway->store, &query, (size_t)max_of(request, TIMELINE_SNAPSHOTS), &json,
		    &total, err))
		return false;
	if (request_text(request, "max") == NULL)
		put_former_name(&json, &body, begin);
	json_member_unsigned(&json, "total", total);
	json_key(&json, "processes");
	if (!store_list_processes(gateway->store, &query, &json, err))
		return false;
	json_key(&json, "notes");
	if (!store_list_notes(gateway->store, &query, &json, NULL, err))
		return false;
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
	return true;
}

static uid_t user_of(int64_t owner)
{
	return owner == STORE_NO_OWNER ? USER_ANY : (uid_t)owner;
}

/* A snapshot by its id, or by its time. */
static bool get_snapshot(struct gateway *gateway, const struct request *request, const char *name,
	const char *id, int64_t time_ms, struct snapshot *snapshot, struct blob **profile,
	struct error *err)
{
	const struct store_query query = make_query(request, name);
	const int64_t number = request_number(request, id, 0);

	int fd = -1;

	return (number != 0 ? store_get_id(gateway->store, name, number, snapshot, &fd, err)
			    : store_get(gateway->store, &query, time_ms, snapshot, &fd, err)) &&
	       blob_take_fd(fd, profile, err);
}

bool api_snapshot(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(snapshot_profiles_deinit) struct snapshot_profiles kept = { 0 };
	const int64_t base_ms = request_number(request, "base_ms", -1);
	const bool has_base = base_ms >= 0 || request_text(request, "base") != NULL;
	struct snapshot now, before = { 0 };
	char name[128];

	if (!gateway_find_history(gateway, request, name, err) ||
		!get_snapshot(gateway, request, name, "id",
			request_number(request, "at_ms", INT64_MAX), &now, &kept.profile, err) ||
		(has_base && !get_snapshot(gateway, request, name, "base", base_ms, &before,
				     &kept.base, err)))
		return false;
	kept.name = now.target;
	kept.owner = xasprintf("snapshot/%" PRId64 "-%" PRId64, now.id, before.id);
	kept.user = user_of(now.owner);
	kept.time_ms = now.time_ms;
	kept.base_ms = before.time_ms;
	if (!snapshot_render_reply(gateway, request, &kept, reply, err))
		return false;
	reply_header(reply, "Heapctl-Time-Ms", "%" PRId64, now.time_ms);
	return true;
}

/*
 * Trends over kept snapshots, by `heapctl trend` in a process of its own, which gets the profiles
 * as one store. A render is cached until the snapshots change.
 */
struct trend_render {
	const struct trend_format *format;
	struct store_query query;
	int64_t max;			      /* profiles */
	int64_t top;			      /* sites */
	const char *unit;		      /* NULL: functions */
	const char *counter;		      /* NULL: bytes in use */
	const char *focus, *ignore, *exclude; /* patterns; NULL for none */
};

/* Of compressed profiles that are passed to the worker. */
#define TREND_BYTES_MAX (UINT64_C(512) << 20)

struct trend_format {
	const char *name;
	const char *option; /* of heapctl trend; NULL: the profiles themselves */
	const char *media_type;
	const char *policy; /* Content-Security-Policy; NULL for the strictest */
};

/* A page that runs no script and reaches nothing. */
static const char standalone_page[] =
	"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
	"frame-ancestors 'self'";

static const struct trend_format trend_formats[] = {
	{ "json", "--json", "application/json", NULL },
	{ "text", "--text", "text/plain; charset=utf-8", NULL },
	{ "svg", "--svg", "image/svg+xml", standalone_page },
	{ "html", "--html", "text/html; charset=utf-8", standalone_page },
	{ "raw", NULL, "application/x-tar", NULL },
	{ 0 },
};

const char *const trend_format_names[] = { "json", "text", "svg", "html", "raw", NULL };

const char *const trend_unit_names[] = { "functions", "cumulative", "lines", "stacks", NULL };

static const struct trend_format *trend_format_find(const char *name)
{
	for (const struct trend_format *format = trend_formats; format->name != NULL; format++) {
		if (strcmp(format->name, name) == 0)
			return format;
	}
	return NULL;
}

const char *trend_media_type(const char *format)
{
	return trend_format_find(format)->media_type;
}

static void add_unit(struct command_line *line, const char *unit)
{
	static const char *const options[][2] = { { "cumulative", "--cum" }, { "lines", "--lines" },
		{ "stacks", "--stacks" } };

	for (size_t i = 0; unit != NULL && i < sizeof options / sizeof options[0]; i++) {
		if (strcmp(unit, options[i][0]) == 0)
			command_line_add(line, options[i][1], NULL);
	}
}

static void add_options(struct command_line *line, const struct trend_render *render)
{
	char number[24];

	command_line_add(line, "trend", NULL);
	command_line_add(line, render->format->option, NULL);
	command_line_add(line, "--title", render->query.target);
	snprintf(number, sizeof number, "%" PRId64, render->top);
	command_line_add(line, "--top", number);
	add_unit(line, render->unit);
	if (render->counter != NULL && strcmp(render->counter, "inuse_space") != 0) {
		char option[32];
		snprintf(option, sizeof option, "--%s", render->counter);
		command_line_add(line, option, NULL);
	}
	command_line_add_given(line, "--focus", render->focus);
	command_line_add_given(line, "--ignore", render->ignore);
	command_line_add_given(line, "--exclude", render->exclude);
	command_line_add(line, "/proc/self/fd/3", NULL);
}

struct trend_order {
	struct gateway *gateway;
	const struct trend_render *render;
	uint64_t bytes; /* of the query's files */
	uid_t user;	/* whose processes they are of; USER_ANY where that is not known */
};

static bool gather(const struct trend_order *order, struct blob **series, struct error *err)
{
	const struct trend_render *const render = order->render;
	CLEANUP(fd_cleanup) int scratch = -1;
	uint64_t held = 0;

	if (!blob_open_scratch(&scratch, err) ||
		!blob_scratch_take(&held,
			order->bytes < TREND_BYTES_MAX ? order->bytes : TREND_BYTES_MAX, err))
		return false;
	if (store_series_gather(order->gateway->store, &render->query, (size_t)render->max,
		    TREND_BYTES_MAX, scratch, err))
		return blob_take_scratch(TAKE_FD(scratch), held, series, err);
	byte_budget_give(&blob_scratch_budget, held);
	return false;
}

static bool make_trend(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err)
{
	const struct trend_order *const order = context;
	const struct trend_render *const render = order->render;
	CLEANUP(blob_cleanup) struct blob *series = NULL;
	struct command_line line = { 0 };

	if (!gather(order, &series, err))
		return false;
	if (render->format->option == NULL) {
		*blob = blob_share(series);
		return true;
	}
	add_options(&line, render);
	const char *const folder = store_folder(order->gateway->store);
	const struct worker_job job = {
		.owner = order->user,
		.clients = clients,
		.arguments = line.arguments,
		.inputs = &series,
		.names = &folder,
		.input_count = 1,
	};
	const bool ok = worker_run(&order->gateway->workers, &job, blob, err);
	command_line_deinit(&line);
	return ok;
}

static const char *text_or_empty(const char *text)
{
	return text == NULL ? "" : text;
}

/* A client's texts come last, each preceded by its length, so that keys are unique. */
static char *make_key(const struct trend_render *render, const struct store_series *series)
{
	const char *const focus = text_or_empty(render->focus);
	const char *const ignore = text_or_empty(render->ignore);

	return xasprintf("trend/%" PRId64 "-%" PRId64 "x%zu/%" PRIx64 "/%" PRId64 "/%" PRId64
			 "/%s/%s/%s/%zu:%s/%zu:%s/%zu:%s/%s",
		series->first_id, series->last_id, series->count, series->notes, render->max,
		render->top, render->format->name, text_or_empty(render->unit),
		text_or_empty(render->counter), strlen(render->query.target), render->query.target,
		strlen(focus), focus, strlen(ignore), ignore, text_or_empty(render->exclude));
}

/* `series` is what the query found. */
static bool trend_render_get(struct gateway *gateway, const struct request *request,
	const struct trend_render *render, struct store_series *series, struct blob **blob,
	struct error *err)
{
	struct trend_order order = { .gateway = gateway, .render = render };

	if (!store_series_look(gateway->store, &render->query, series, err))
		return false;
	order.bytes = series->bytes;
	order.user = user_of(series->owner);
	CLEANUP(free_cleanup) char *key = make_key(render, series);
	/* The profiles themselves are large and quick to gather. */
	const bool keep = render->format->option != NULL;
	return result_cache_get(&gateway->render_cache, key, order.user, keep, request->client_fd,
		make_trend, &order, blob, err);
}

bool api_trend(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	const char *const format = request_text(request, "format");
	struct store_series series;
	char name[128];

	if (!gateway_find_history(gateway, request, name, err))
		return false;
	const struct trend_render render = {
		.format = trend_format_find(format == NULL ? "json" : format),
		.query = make_query(request, name),
		.max = max_of(request, TREND_PROFILES_MAX),
		.top = request_number(request, "top", TREND_TOP),
		.unit = request_text(request, "by"),
		.counter = request_text(request, "counter"),
		.focus = request_text(request, "focus"),
		.ignore = request_text(request, "ignore"),
		.exclude = request_text(request, "exclude"),
	};
	if (!trend_render_get(gateway, request, &render, &series, &result, err))
		return false;
	reply_blob(reply, 200, render.format->media_type, result);
	reply->policy = render.format->policy;
	if (render.format->option == NULL)
		reply_attachment(reply, "%s.tar", name);
	reply_header(reply, "Heapctl-Snapshots", "%zu", series.count);
	/* Its former name, until 0.3. */
	reply_header(reply, "Heapctl-Moments", "%zu", series.count);
	reply_header(reply, "Heapctl-Processes", "%lld", (long long)series.processes);
	return true;
}
