/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What serve --watch-file does: /watch, /api/v1/watches, and /api/v1/captures and capture for what
 * watches have put into folders, not into the history.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/json_writer.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/handlers.h"
#include "gateway/profile_render.h"
#include "gateway/watch_manager.h"
#include "store/store.h"

#define JSON_TYPE "application/json"

/* The watches that a request is about: those of one target, there or not, or all. */
struct watch_view {
	char name[128]; /* of the target; "" for all */
	struct watch_manager_state state;
	struct watch_report *reports; /* owned */
	size_t count;
};

static void watch_view_cleanup(struct watch_view *view)
{
	free(view->reports);
}

/* ERROR_NOT_FOUND when the gateway watches nothing. */
static bool watch_view_take_all(struct gateway *gateway, struct watch_view *view, struct error *err)
{
	if (gateway->watch_manager == NULL) {
		error_set(err, ERROR_NOT_FOUND, "this gateway has no watches");
		return error_hint(err, "start heapctl serve with --watch-file FILE");
	}
	view->count = watch_manager_report(gateway->watch_manager, &view->state, &view->reports);
	return true;
}

static bool watch_view_take(struct gateway *gateway, const struct request *request,
	struct watch_view *view, struct error *err)
{
	size_t kept = 0;

	if (!watch_view_take_all(gateway, view, err) ||
		!gateway_find_name(gateway, request, view->name, err))
		return false;
	for (size_t i = 0; i < view->count; i++) {
		if (watch_report_is_about(&view->reports[i], view->name))
			view->reports[kept++] = view->reports[i];
	}
	view->count = kept;
	return true;
}

static const char *const state_names[] = {
	[WATCH_WAITING] = "waiting",
	[WATCH_WATCHING] = "watching",
	[WATCH_REFUSED] = "refused",
};

static void put_error(struct json_writer *json, const char *key, const struct error *err)
{
	json_key(json, key);
	if (err->kind == ERROR_NONE) {
		json_put_null(json);
		return;
	}
	json_object_begin(json);
	json_member_string(json, "code", error_kind_name(err->kind));
	json_member_string(json, "message", err->message);
	json_member_string(json, "hint", err->hint);
	json_object_end(json);
}

static void put_conditions(struct json_writer *json, const struct watch_report *report)
{
	const struct watch_settings *const settings = &report->section.settings;

	json_member_array(json, "conditions");
	for (size_t i = 0; i < settings->rule_count; i++) {
		json_object_begin(json);
		json_member_string(json, "when", settings->rules[i].text);
		json_member_bool(json, "armed", report->armed[i]);
		json_key(json, "problem");
		if (report->rule_problems[i][0] == '\0')
			json_put_null(json);
		else
			json_put_string(json, report->rule_problems[i]);
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_last_capture(struct json_writer *json, const struct watch_report *report)
{
	json_key(json, "last_capture");
	if (report->captured_ms == 0) {
		json_put_null(json);
		return;
	}
	json_object_begin(json);
	json_member_integer(json, "time_ms", report->captured_ms);
	json_member_string(json, "reason", report->reason);
	json_member_string(json, "file", report->path);
	json_member_unsigned(json, "bytes", report->bytes);
	json_object_end(json);
}

static void put_last_failure(struct json_writer *json, const struct watch_report *report)
{
	json_key(json, "last_failure");
	if (report->failed_ms == 0) {
		json_put_null(json);
		return;
	}
	json_object_begin(json);
	json_member_integer(json, "time_ms", report->failed_ms);
	put_error(json, "error", &report->failure);
	json_object_end(json);
}

/* Without the command: it may hold secrets and is of no use over a network. */
static void put_watch(struct json_writer *json, const struct watch_report *report)
{
	const struct watch_settings *const settings = &report->section.settings;

	json_object_begin(json);
	json_member_string(json, "target", report->name);
	json_member_integer_or_null(json, "pid", report->pid);
	json_member_string(json, "section", report->section.pattern);
	json_member_integer(json, "line", report->section.line);
	json_member_string(json, "state", state_names[report->state]);
	put_error(json, "problem", &report->problem);
	put_conditions(json, report);
	json_member_integer(json, "cool_down_ms", settings->trigger.cool_down_ms);
	json_member_integer(json, "interval_ms", settings->interval_ms);
	json_member_string(json, "keep", settings->keep[0] == '\0' ? "history" : settings->keep);
	json_member_bool(json, "has_command", settings->then[0] != '\0');
	json_member_unsigned(json, "captures", report->captures);
	json_member_unsigned(json, "failures", report->failures);
	put_last_capture(json, report);
	put_last_failure(json, report);
	json_object_end(json);
}

static void reply_watches(const struct watch_view *view, struct reply *reply)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	struct json_writer json;

	json_init(&json, &body);
	json_object_begin(&json);
	json_member_string(&json, "file", view->state.path);
	json_member_integer(&json, "read_ms", view->state.read_ms);
	put_error(&json, "problem", &view->state.problem);
	json_member_array(&json, "watches");
	for (size_t i = 0; i < view->count; i++)
		put_watch(&json, &view->reports[i]);
	json_array_end(&json);
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
}

bool api_watch(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(watch_view_cleanup) struct watch_view view = { 0 };

	if (!watch_view_take(gateway, request, &view, err))
		return false;
	reply_watches(&view, reply);
	return true;
}

bool api_watches(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(watch_view_cleanup) struct watch_view view = { 0 };

	(void)request;
	if (!watch_view_take_all(gateway, &view, err))
		return false;
	reply_watches(&view, reply);
	return true;
}

struct capture_array {
	json_t *captures;
	const char *folder;
	unsigned line; /* of the watch's section */
};

/* What is known of it, as in captures.jsonl, its number and whose it is. */
static void add_capture(void *context, const struct snapshot *snapshot)
{
	const struct capture_array *const array = context;
	CLEANUP(free_cleanup) char *path = xasprintf("%s/%s", array->folder, snapshot->file);

	/* Removed by hand; the row is removed when the store is opened again. */
	if (access(path, F_OK) != 0)
		return;
	json_t *entry = json_loads(snapshot->details, 0, NULL);
	if (entry == NULL)
		entry = json_object();
	json_object_set_new(entry, "number", json_integer(snapshot->id));
	json_object_set_new(entry, "line", json_integer(array->line));
	json_array_append_new(array->captures, entry);
}

static bool add_captures(const struct watch_report *report, json_t *all, struct error *err)
{
	const struct store_query query = { .to_ms = INT64_MAX, .captured = true };
	struct capture_array array = { all, NULL, report->section.line };
	CLEANUP(store_cleanup) struct store *store = NULL;
	char folder[4096];
	size_t total;

	watch_report_folder(report, folder);
	if (folder[0] == '\0')
		return true;
	array.folder = folder;
	/* Nothing was captured yet. */
	if (!store_open_reader(folder, STORE_CAPTURES, &store, err))
		return err->kind == ERROR_NOT_FOUND || err->errnum == ENOENT;
	return store_each(store, &query, SIZE_MAX, add_capture, &array, &total, err);
}

/* Whether an earlier report has the same folder, as processes of one name do. */
static bool is_known(const struct watch_view *view, size_t at)
{
	char folder[4096], other[4096];

	watch_report_folder(&view->reports[at], folder);
	for (size_t i = 0; i < at; i++) {
		watch_report_folder(&view->reports[i], other);
		if (strcmp(folder, other) == 0)
			return true;
	}
	return false;
}

bool api_captures(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(watch_view_cleanup) struct watch_view view = { 0 };
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;

	if (!watch_view_take(gateway, request, &view, err))
		return false;
	json_t *const captures = json_array();
	CLEANUP(json_cleanup) json_t *answer = json_pack("{s:o}", "captures", captures);
	for (size_t i = 0; i < view.count; i++) {
		if (!is_known(&view, i) && !add_captures(&view.reports[i], captures, err))
			return false;
	}
	CLEANUP(free_cleanup) char *text = json_dumps(answer, JSON_COMPACT);
	buffer_append_string(&body, text == NULL ? "{}" : text);
	reply_buffer(reply, 200, JSON_TYPE, &body);
	return true;
}

/* The target's watch with that line: clients do not name folders. */
static const struct watch_report *find_report(
	const struct watch_view *view, int64_t line, char folder[4096], struct error *err)
{
	for (size_t i = 0; i < view->count; i++) {
		if (view->reports[i].section.line != (uint64_t)line)
			continue;
		watch_report_folder(&view->reports[i], folder);
		if (folder[0] != '\0')
			return &view->reports[i];
	}
	error_set(err, ERROR_NOT_FOUND,
		"%s has no watch of line %" PRId64 " of %s that keeps its captures in a folder",
		view->name, line, view->state.path);
	return NULL;
}

static bool get_capture(const char *folder, int64_t number, struct snapshot *snapshot,
	struct blob **profile, struct error *err)
{
	CLEANUP(store_cleanup) struct store *store = NULL;
	int fd;

	if (store_open_reader(folder, STORE_CAPTURES, &store, err) &&
		store_get_id(store, NULL, number, snapshot, &fd, err))
		return blob_take_fd(fd, profile, err);
	if (err->kind != ERROR_NOT_FOUND && err->errnum != ENOENT)
		return false;
	error_set(err, ERROR_NOT_FOUND, "there is no capture %" PRId64 " in %s", number, folder);
	return error_hint(err, "it may have been removed for newer ones");
}

bool api_capture(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(watch_view_cleanup) struct watch_view view = { 0 };
	CLEANUP(snapshot_profiles_deinit) struct snapshot_profiles kept = { 0 };
	const int64_t number = request_number(request, "number", 0);
	const int64_t base_number = request_number(request, "base", -1);
	const struct watch_report *report = NULL;
	struct snapshot now, before = { 0 };
	char folder[4096];

	if (!watch_view_take(gateway, request, &view, err) ||
		(report = find_report(&view, request_number(request, "line", 0), folder, err)) ==
			NULL ||
		!get_capture(folder, number, &now, &kept.profile, err) ||
		(base_number >= 0 && !get_capture(folder, base_number, &before, &kept.base, err)))
		return false;
	kept.time_ms = now.time_ms;
	kept.base_ms = before.time_ms;
	kept.user = now.owner == STORE_NO_OWNER ? USER_ANY : (uid_t)now.owner;
	kept.name = report->name;
	kept.owner = xasprintf("capture/%s/%" PRId64 "-%" PRId64, folder, number, base_number);
	return snapshot_render_reply(gateway, request, &kept, reply, err);
}
