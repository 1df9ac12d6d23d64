/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/archive, timeline, moment and trend: what serve --history has kept. */
#include <inttypes.h>
#include <stdio.h>

#include "base/xalloc.h"
#include "store/store.h"
#include "gateway/handlers.h"
#include "gateway/snapshot_render.h"
#include "gateway/trend_render.h"

#define JSON_TYPE "application/json"

static bool has_store(const struct gateway *gateway, struct error *err)
{
	if (gateway->store != NULL)
		return true;
	error_set(err, ERROR_NOT_FOUND, "this gateway keeps no history");
	return error_hint(err, "start heapctl serve with --history FOLDER");
}

static bool find_name(
	struct gateway *gateway, const struct request *request, char name[128], struct error *err)
{
	return has_store(gateway, err) && gateway_find_name(gateway, request, name, err);
}

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

static void start_object(struct json_writer *json, struct buffer *body, const char *key)
{
	buffer_init(body, &memory_or_exit);
	json_init(json, body);
	json_object_begin(json);
	json_key(json, key);
}

void api_archive(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	struct error err = { 0 };
	struct json_writer json;
	struct buffer body;

	start_object(&json, &body, "targets");
	if (has_store(gateway, &err) && store_list_targets(gateway->store, &json, &err)) {
		json_object_end(&json);
		reply_buffer(reply, 200, JSON_TYPE, &body);
	} else {
		reply_failure(request, &err, reply);
	}
	buffer_deinit(&body);
}

void api_timeline(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	struct error err = { 0 };
	struct json_writer json;
	struct buffer body;
	char name[128] = "";
	size_t total = 0;

	start_object(&json, &body, "moments");
	const bool is_known = find_name(gateway, request, name, &err);
	const struct store_query query = make_query(request, name);
	bool ok = is_known && store_list(gateway->store, &query,
				      (size_t)request_number(request, "most", TIMELINE_SNAPSHOTS),
				      &json, &total, &err);
	if (ok) {
		json_member_unsigned(&json, "total", total);
		json_key(&json, "processes");
		ok = store_list_processes(gateway->store, &query, &json, &err);
	}
	if (ok) {
		json_object_end(&json);
		reply_buffer(reply, 200, JSON_TYPE, &body);
	} else {
		reply_failure(request, &err, reply);
	}
	buffer_deinit(&body);
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

void api_moment(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(snapshot_profiles_deinit) struct snapshot_profiles kept = { 0 };
	const int64_t base_ms = request_number(request, "base_ms", -1);
	const bool has_base = base_ms >= 0 || request_text(request, "base") != NULL;
	struct snapshot now, before = { 0 };
	struct error err = { 0 };
	char name[128];

	if (!find_name(gateway, request, name, &err) ||
		!get_snapshot(gateway, request, name, "id",
			request_number(request, "at_ms", INT64_MAX), &now, &kept.profile, &err) ||
		(has_base && !get_snapshot(gateway, request, name, "base", base_ms, &before,
				     &kept.base, &err))) {
		reply_failure(request, &err, reply);
		return;
	}
	kept.name = now.target;
	kept.owner = xasprintf("moment/%" PRId64 "-%" PRId64, now.id, before.id);
	kept.time_ms = now.time_ms;
	kept.base_ms = before.time_ms;
	if (snapshot_render_reply(gateway, request, &kept, reply))
		reply_header(reply, "Heapctl-Time-Ms", "%" PRId64, now.time_ms);
}

void api_trend(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	const char *const format = request_text(request, "format");
	struct store_series series;
	struct error err = { 0 };
	char name[128] = "";

	const bool is_known = find_name(gateway, request, name, &err);
	const struct trend_render render = {
		.format = trend_format_find(format == NULL ? "json" : format),
		.query = make_query(request, name),
		.most = request_number(request, "most", TREND_PROFILES_MAX),
		.top = request_number(request, "top", TREND_TOP),
		.unit = request_text(request, "by"),
		.counter = request_text(request, "counter"),
		.focus = request_text(request, "focus"),
		.ignore = request_text(request, "ignore"),
		.exclude = request_text(request, "exclude"),
	};
	if (!is_known || !trend_render_get(gateway, &render, &series, &result, &err)) {
		reply_failure(request, &err, reply);
		return;
	}
	reply_blob(reply, 200, render.format->media_type, result);
	reply->policy = render.format->policy;
	if (render.format->option == NULL)
		reply_attachment(reply, "%s.tar", name);
	reply_header(reply, "Heapctl-Moments", "%zu", series.count);
	reply_header(reply, "Heapctl-Processes", "%lld", (long long)series.processes);
}
