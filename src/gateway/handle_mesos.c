/* SPDX-License-Identifier: Apache-2.0 */
/* /memory-profiler/, as in libprocess. */
#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/handlers.h"
#include "gateway/profile_render.h"

#define JSON_TYPE "application/json"

/* Mesos answers 400 for all of this; here only statuses that its scripts act on stay. True. */
static bool fail(const struct error *err, struct reply *reply)
{
	const int status = reply_status_of(err);

	reply_error_text(reply, status == 501 ? 400 : status, err);
	return true;
}

/* No profile yet is 400 in Mesos. True. */
static bool fail_download(const struct error *err, struct reply *reply)
{
	const int status = reply_status_of(err);

	reply_error_text(reply, status == 503 || status == 403 ? status : 400, err);
	return true;
}

/* Of runs that the client named by their ids: 404 if there are none. True. */
static bool fail_named(const struct error *err, struct reply *reply)
{
	return err->kind == ERROR_NOT_FOUND ? fail(err, reply) : fail_download(err, reply);
}

static void reply_started(const json_t *run, struct reply *reply)
{
	char seconds[32], length[DURATION_TEXT_BYTES];
	const bool was_on = json_flag(run, "already_running");
	const int64_t remaining_ms = json_number(run, "remaining_ms");
	struct json_writer json;
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;

	snprintf(seconds, sizeof seconds, "%" PRId64, (remaining_ms + 500) / 1000);
	json_init(&json, &body);
	json_object_begin(&json);
	json_member_integer(&json, "id", json_number(run, "id"));
	json_key(&json, "message");
	CLEANUP(free_cleanup)
	char *message = xasprintf(was_on ? "a run is already active, for another %s"
					 : "the run has started and ends by itself after %s",
		duration_format(remaining_ms, length));
	json_put_string(&json, message);
	json_member_string(&json, "remaining_seconds", seconds);
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
}

bool mesos_start(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(json_cleanup) json_t *run = NULL;
	char path[64];

	snprintf(path, sizeof path, "/v1/runs?duration_ms=%" PRId64,
		request_number(request, "duration", DURATION_DEFAULT_RUN_MS));
	if (!gateway_find(gateway, request, &backend, err) ||
		!backend_post_json(backend, path, &run, NULL, err))
		return fail(err, reply);
	reply_started(run, reply);
	return true;
}

/* Where the downloads of a run are: under the same prefix as the request. */
static void put_url(struct json_writer *json, const struct request *request, const char *key,
	const char *download, int64_t id)
{
	CLEANUP(free_cleanup)
	char *url = request->target_name == NULL
			    ? xasprintf("/memory-profiler/download/%s?id=%" PRId64, download, id)
			    : xasprintf("/targets/%s/memory-profiler/download/%s?id=%" PRId64,
				      request->target_name, download, id);

	json_member_string(json, key, url);
}

static void reply_stopped(
	const struct request *request, int64_t id, const char *message, struct reply *reply)
{
	char text[32];
	struct json_writer json;
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;

	snprintf(text, sizeof text, "%" PRId64, id);
	json_init(&json, &body);
	json_object_begin(&json);
	json_member_string(&json, "id", text);
	json_member_string(&json, "message", message);
	put_url(&json, request, "url_raw_profile", "raw", id);
	put_url(&json, request, "url_graph_profile", "graph", id);
	put_url(&json, request, "url_symbolized_profile", "text", id);
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
}

/* No run is on. Sampling that another client switched on stays on; else the last profile is the
 * answer. */
static bool reply_not_running(struct backend *backend, const struct request *request,
	struct reply *reply, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	int64_t id;

	if (!backend_get_json(backend, "/v1/status", &status, err))
		return fail(err, reply);
	if (json_flag(status, "profiling.active")) {
		error_set(err, ERROR_STATE,
			"sampling was switched on by the program or another tool");
		return error_hint(err, "switch it off the same way");
	}
	if (!run_profiles_newest(backend, &id, err))
		return fail_download(err, reply);
	reply_stopped(request, id, "no run is on; this is the last one", reply);
	return true;
}

bool mesos_stop(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(json_cleanup) json_t *run = NULL;

	if (!gateway_find(gateway, request, &backend, err))
		return fail(err, reply);
	if (!backend_post_json(backend, "/v1/runs/stop", &run, NULL, err)) {
		if (err->kind == ERROR_STATE || err->kind == ERROR_NOT_FOUND)
			return reply_not_running(backend, request, reply, err);
		return fail(err, reply);
	}
	reply_stopped(request, json_number(run, "id"), "the run has ended", reply);
	return true;
}

static bool is_jemalloc(const json_t *status)
{
	return strcmp(json_text(status, "allocator.name"), "jemalloc") == 0;
}

static void put_run(struct backend *backend, const json_t *status, struct json_writer *json)
{
	const json_t *const run = json_at(status, "run");
	int64_t id = json_number(run, "id");
	const bool is_on = strcmp(json_text(run, "state"), "running") == 0;
	struct error ignored;

	json_member_object(json, "current_run");
	json_key(json, "id");
	if (is_on || run_profiles_newest(backend, &id, &ignored))
		json_put_integer(json, id);
	else
		json_put_null(json);
	json_member_real(json, "remaining_seconds",
		is_on ? (double)json_number(run, "remaining_ms") / 1e3 : 0);
	json_object_end(json);
}

static void put_jemalloc(const json_t *status, struct json_writer *json)
{
	json_member_object(json, "jemalloc");
	json_member_object(json, "malloc_conf");
	json_member_string(json, "environment", json_text(status, "malloc_conf.environment"));
	json_member_string(json, "build_options", json_text(status, "malloc_conf.build"));
	json_object_end(json);
	json_member_bool(json, "profiling_enabled", json_flag(status, "profiling.enabled"));
	json_member_bool(json, "profiling_active", json_flag(status, "profiling.active"));
	json_object_end(json);
}

bool mesos_state(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct json_writer json;
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;

	if (!gateway_find(gateway, request, &backend, err) ||
		!backend_get_json(backend, "/v1/status", &status, err))
		return fail(err, reply);
	const bool used = gateway->profile_cache.made > 0;
	json_init(&json, &body);
	json_object_begin(&json);
	json_member_object(&json, "memory_profiler");
	json_member_bool(&json, "jemalloc_detected", is_jemalloc(status));
	json_member_string(&json, "tmp_dir", used ? blob_scratch_place() : "Not yet generated");
	put_run(backend, status, &json);
	json_object_end(&json);
	if (is_jemalloc(status))
		put_jemalloc(status, &json);
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
	return true;
}

bool mesos_statistics(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct backend_answer answer;

	/* All of it, as the original gives: "J" alone leaves nothing out. */
	if (!gateway_find(gateway, request, &backend, err) ||
		!backend_get(backend, "/v1/stats?options=J", BACKEND_PROFILE_MS, &answer, err))
		return fail(err, reply);
	reply_blob(reply, 200, "application/json; charset=utf-8", answer.body);
	blob_drop(answer.body);
	return true;
}

/* The last segment of the path is the format. */
static const struct profile_format *wanted_format(const struct request *request)
{
	return profile_format_find(strrchr(request->route->pattern, '/') + 1);
}

bool mesos_download(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	struct profile_render render = {
		.format = wanted_format(request),
		.base_id = -1,
		.debuginfod = gateway->debuginfod,
	};

	if (!gateway_find(gateway, request, &backend, err))
		return fail(err, reply);
	render.id = request_number(request, "id", -1);
	if (render.id < 0 && !run_profiles_newest(backend, &render.id, err))
		return fail_download(err, reply);
	if (!profile_render_get(gateway, backend, request, &render, &result, err))
		return fail_named(err, reply);
	reply_blob(reply, 200, "application/octet-stream", result);
	reply_attachment(
		reply, "%s.%" PRId64 ".%s", backend->name, render.id, render.format->extension);
	return true;
}

bool mesos_diff(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	const char *const format = request_text(request, "format");
	const struct profile_render render = {
		.format = profile_format_find(format == NULL ? "text" : format),
		.id = request_number(request, "id", 0),
		.base_id = request_number(request, "base", 0),
		.debuginfod = gateway->debuginfod,
	};

	if (!gateway_find(gateway, request, &backend, err) ||
		!profile_render_get(gateway, backend, request, &render, &result, err))
		return fail_named(err, reply);
	reply_blob(reply, 200, render.format->media_type, result);
	reply->policy = render.format->policy;
	return true;
}
