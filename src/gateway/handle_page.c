/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page for people, whose files are built in (nothing comes from elsewhere), and /targets and
 * /api/v1/: what it needs beyond the agent's own protocol.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "analysis/allocator_stats.h"
#include "base/clock.h"
#include "base/hash_index.h"
#include "base/json_writer.h"
#include "base/user_name.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/process.h"
#include "client/process_command.h"
#include "gateway/handlers.h"
#include "gateway/merged_render.h"
#include "gateway/profile_render.h"
#include "gateway/gateway.h"
#include "gateway/web_assets.h"
#include "render/assets.h"
#include "watch/process_identity.h"
#include "wire/http_target.h"

#define JSON_TYPE "application/json"

/* Scripts and styles only as files of this gateway; pictures also from memory. */
static const char page_policy[] =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* The flame graph's own files. */
static const struct web_asset flame_assets[] = {
	{ "flame.js", "text/javascript; charset=utf-8", flame_script, sizeof flame_script - 1 },
	{ "flame.css", "text/css; charset=utf-8", flame_style, sizeof flame_style - 1 },
	{ 0 },
};

static const struct web_asset *find_in(const struct web_asset *assets, const char *name)
{
	for (const struct web_asset *asset = assets; asset->name != NULL; asset++) {
		if (strcmp(asset->name, name) == 0)
			return asset;
	}
	return NULL;
}

static const struct web_asset *find_asset(const char *name)
{
	const struct web_asset *const asset = find_in(web_assets, name);

	return asset != NULL ? asset : find_in(flame_assets, name);
}

/* 304 for a browser that has the same file. */
static void reply_asset(
	const struct request *request, const struct web_asset *asset, struct reply *reply)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	char tag[32];

	snprintf(tag, sizeof tag, "\"%016llx\"",
		(unsigned long long)hash_fixed_bytes(asset->data, asset->size));
	const bool is_known = strcmp(request->if_none_match, tag) == 0;
	if (!is_known)
		buffer_append(&body, asset->data, asset->size);
	reply_buffer(reply, is_known ? 304 : 200, asset->media_type, &body);
	reply->policy = page_policy;
	reply->may_be_cached = true;
	reply_header(reply, "ETag", "%s", tag);
	reply_header(reply, "Cross-Origin-Opener-Policy", "same-origin");
}

bool page_root(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	(void)gateway;
	(void)err;
	if (request->target_name == NULL) {
		reply_asset(request, find_asset("index.html"), reply);
		return true;
	}
	CLEANUP(buffer_deinit) struct buffer url = BUFFER_OR_EXIT;

	buffer_append_string(&url, "/#/");
	http_append_encoded(&url, request->target_name);
	reply_text(reply, 302, "%s\n", buffer_string(&url));
	reply_header(reply, "Location", "%s", buffer_string(&url));
	return true;
}

bool page_asset(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	const char *const name = request_text(request, "file");
	const struct web_asset *const asset = find_asset(name);

	(void)gateway;
	if (asset == NULL)
		return error_set(err, ERROR_NOT_FOUND, "the page has no file '%.60s'", name);
	reply_asset(request, asset, reply);
	return true;
}

static void put_member(struct json_writer *json, const char *key, const json_t *value)
{
	CLEANUP(free_cleanup)
	char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

	json_key(json, key);
	if (text == NULL)
		json_put_null(json);
	else
		json_put_raw(json, text, strlen(text));
}

/* Several targets may share a name; the pid is unique in a URL. */
static void put_url(struct json_writer *json, const struct backend *backend)
{
	CLEANUP(buffer_deinit) struct buffer url = BUFFER_OR_EXIT;
	char number[16];

	snprintf(number, sizeof number, "%d", (int)backend->pid);
	buffer_append_string(&url, "/targets/");
	http_append_encoded(&url, backend->pid != 0 ? number : backend->name);
	buffer_append_char(&url, '/');
	json_member_string(json, "url", buffer_string(&url));
}

/* What tells the processes of one name apart, as heapctl ps shows it; of this machine's alone. */
static void put_process(struct json_writer *json, pid_t pid)
{
	char user[USER_NAME_BYTES], container[PROCESS_CONTAINER_BYTES];
	struct process process;
	struct error ignored;
	bool is_title;

	if (pid == 0 || !process_read(pid, &process, &ignored))
		return;
	CLEANUP(free_cleanup) char *command = process_command_read(pid, &is_title);
	user_name_format(process.uid, user);
	process_identity_read_container(pid, container);
	json_member_string(json, "user", user);
	json_member_integer(json, "parent", process.parent);
	json_member_string(json, "command", command);
	if (container[0] != '\0')
		json_member_string(json, "container", container);
}

static void put_target(struct json_writer *json, const struct poll_result *item)
{
	const struct backend *const backend = item->backend;
	const json_t *const status = item->value;

	json_object_begin(json);
	json_member_string(json, "name", backend->name);
	json_member_integer_or_null(json, "pid", backend->pid);
	json_member_string(json, "label", backend->target.label);
	put_url(json, backend);
	put_process(json, backend->pid);
	json_member_bool(json, "reachable", status != NULL);
	json_member_unsigned(json, "rss", backend_resident_bytes(backend));
	put_member(json, "allocator", json_at(status, "allocator"));
	put_member(json, "profiling", json_at(status, "profiling"));
	put_member(json, "memory", json_at(status, "memory"));
	put_member(json, "run", json_at(status, "run"));
	if (status == NULL)
		reply_put_error(json, &item->err);
	json_object_end(json);
}

static void put_problem(struct json_writer *json, const struct backend_problem *problem)
{
	json_object_begin(json);
	json_member_string(json, "name", problem->name);
	json_member_integer_or_null(json, "pid", problem->pid);
	json_member_string(json, "label", problem->name);
	json_key(json, "url");
	json_put_null(json);
	json_member_bool(json, "reachable", false);
	reply_put_error(json, &problem->err);
	json_object_end(json);
}

bool api_targets(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_list_deinit) struct backend_list list = { 0 };
	CLEANUP(target_poll_deinit) struct target_poll poll = { 0 };
	struct json_writer json;
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;

	(void)request;
	(void)err;
	backend_set_list(&gateway->backends, &list);
	target_poll_run(&poll, &list, "/v1/status", NULL);
	json_init(&json, &body);
	json_object_begin(&json);
	json_member_array(&json, "targets");
	for (size_t i = 0; i < poll.count; i++)
		put_target(&json, &poll.items[i]);
	for (size_t i = 0; i < list.problem_count; i++)
		put_problem(&json, &list.problems[i]);
	json_array_end(&json);
	json_member_bool(&json, "keeps_history", gateway->store != NULL);
	json_member_bool(
		&json, "has_source", gateway->source_root != NULL || gateway->debuginfod != NULL);
	json_member_bool(&json, "has_watch_file", gateway->watch_manager != NULL);
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
	return true;
}

static void take_sample(struct backend *backend, const json_t *status)
{
	struct live_sample sample = { .time_ms = clock_realtime_ms() };

	backend_memory_figures(backend, status, sample.bytes);
	pthread_mutex_lock(&backend->mutex);
	if (live_metrics_is_due(&backend->history, sample.time_ms))
		live_metrics_add(&backend->history, &sample);
	pthread_mutex_unlock(&backend->mutex);
}

static void note_miss(struct backend *backend, const struct error *err)
{
	pthread_mutex_lock(&backend->mutex);
	live_metrics_add_miss(&backend->history, clock_realtime_ms(), err->message);
	pthread_mutex_unlock(&backend->mutex);
}

static bool is_due(struct backend *backend)
{
	pthread_mutex_lock(&backend->mutex);
	const bool due = live_metrics_is_due(&backend->history, clock_realtime_ms());
	pthread_mutex_unlock(&backend->mutex);
	return due;
}

bool api_history(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct json_writer json;
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;

	if (!gateway_find(gateway, request, &backend, err))
		return false;
	if (is_due(backend) && !backend_get_json(backend, "/v1/status", &status, err)) {
		note_miss(backend, err);
		return false;
	}
	if (status != NULL)
		take_sample(backend, status);
	json_init(&json, &body);
	pthread_mutex_lock(&backend->mutex);
	live_metrics_write(&backend->history, request_number(request, "since_ms", 0), &json);
	pthread_mutex_unlock(&backend->mutex);
	reply_buffer(reply, 200, JSON_TYPE, &body);
	return true;
}

/* "now" or the id of a run; `otherwise` when it was not given. */
static bool parse_id(const struct request *request, const char *name, int64_t otherwise,
	int64_t *id, struct error *err)
{
	const char *const text = request_text(request, name);
	uint64_t number = 0;

	*id = otherwise;
	if (text == NULL)
		return true;
	*id = RUN_PROFILES_NOW;
	if (strcmp(text, "now") == 0)
		return true;
	const size_t size = strlen(text);
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9' || size > 18)
			return error_set(err, ERROR_USAGE,
				"%s must be the id of a run or now, not '%.40s'", name, text);
		number = number * 10 + (uint64_t)(text[i] - '0');
	}
	if (number == 0)
		return error_set(err, ERROR_USAGE, "%s must be the id of a run or now", name);
	*id = (int64_t)number;
	return true;
}

/* `name`: what it is of, for a file. */
static bool render_profile(struct gateway *gateway, const struct request *request,
	struct profile_render *render, char name[GATEWAY_NAME_BYTES], struct blob **result,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;

	if (!parse_id(request, "id", RUN_PROFILES_NOW, &render->id, err) ||
		!parse_id(request, "base", -1, &render->base_id, err))
		return false;
	snprintf(name, GATEWAY_NAME_BYTES, "%s",
		request->target_name == NULL ? "profile" : request->target_name);
	if (request_number(request, "merge", 0) == 0) {
		if (!gateway_find(gateway, request, &backend, err))
			return false;
		snprintf(name, GATEWAY_NAME_BYTES, "%s", backend->name);
		return profile_render_get(gateway, backend, request, render, result, err);
	}
	if (render->id == RUN_PROFILES_NOW && render->base_id < 0)
		return merged_render_get(gateway, request, render, result, err);
	error_set(err, ERROR_USAGE, "merge=1 adds up what is in use now");
	return error_hint(err, "leave out id and base: each process has its own runs");
}

bool api_profile(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	struct profile_render render = {
		.is_inverted = request_number(request, "inverted", 0) != 0,
		.by_cumulative = request_number(request, "cumulative", 0) != 0,
		.is_whole = request_number(request, "whole", 0) != 0,
	};
	char name[GATEWAY_NAME_BYTES];

	if (!profile_render_read(&render, gateway, request, err) ||
		!render_profile(gateway, request, &render, name, &result, err))
		return false;
	reply_blob(reply, 200, render.format->media_type, result);
	reply->policy = render.format->policy;
	if (request_number(request, "download", 0) != 0)
		reply_attachment(reply, "%s.%s.%s", name,
			request_text(request, "id") == NULL ? "now" : request_text(request, "id"),
			render.format->extension);
	return true;
}

static void put_classes(struct json_writer *json, const struct allocator_stats *stats)
{
	json_member_array(json, "classes");
	for (size_t i = 0; i < stats->class_count; i++) {
		const struct size_class *const class = &stats->classes[i];
		json_object_begin(json);
		json_member_unsigned(json, "size", class->size);
		json_member_bool(json, "large", class->is_large);
		json_member_unsigned(json, "objects", class->objects);
		json_member_unsigned(json, "allocated", class->allocated_bytes);
		json_member_unsigned(json, "held", class->held_bytes);
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_arenas(struct json_writer *json, const struct allocator_stats *stats)
{
	json_member_array(json, "arenas");
	for (size_t i = 0; i < stats->arena_count; i++) {
		const struct arena_stats *const arena = &stats->arenas[i];
		json_object_begin(json);
		json_member_unsigned(json, "index", arena->index);
		json_member_unsigned(json, "threads", arena->threads);
		json_member_unsigned(json, "allocated", arena->allocated_bytes);
		json_member_unsigned(json, "active", arena->active_bytes);
		json_member_unsigned(json, "dirty", arena->dirty_bytes);
		json_member_unsigned(json, "muzzy", arena->muzzy_bytes);
		json_member_unsigned(json, "mapped", arena->mapped_bytes);
		json_member_unsigned(json, "retained", arena->retained_bytes);
		json_member_unsigned(json, "resident", arena->resident_bytes);
		json_object_end(json);
	}
	json_array_end(json);
}

static bool read_classes(struct backend *backend, struct allocator_stats *stats, struct error *err)
{
	CLEANUP(json_cleanup) json_t *classes = NULL;
	CLEANUP(json_cleanup) json_t *arenas = NULL;

	return backend_get_json(backend, ALLOCATOR_STATS_CLASSES, &classes, err) &&
	       allocator_stats_add_classes(stats, classes, err) &&
	       backend_get_json(backend, ALLOCATOR_STATS_ARENAS, &arenas, err) &&
	       allocator_stats_add_arenas(stats, arenas, err);
}

bool api_classes(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(allocator_stats_deinit) struct allocator_stats stats = { 0 };
	struct json_writer json;
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;

	if (!gateway_find(gateway, request, &backend, err) || !read_classes(backend, &stats, err))
		return false;
	json_init(&json, &body);
	json_object_begin(&json);
	put_classes(&json, &stats);
	put_arenas(&json, &stats);
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
	return true;
}
