/* SPDX-License-Identifier: Apache-2.0 */
/* /watch, /api/v1/watches and the watches' part of /metrics: what serve --watch-file does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_writer.h"
#include "base/xalloc.h"
#include "gateway/exposition.h"
#include "gateway/handlers.h"
#include "gateway/watch_view.h"
#include "gateway/watch_manager.h"

#define JSON_TYPE "application/json"

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

	json_key(json, "conditions");
	json_array_begin(json);
	for (size_t i = 0; i < settings->rule_count; i++) {
		json_object_begin(json);
		json_member_string(json, "when", settings->rules[i].text);
		json_member_bool(json, "armed", report->armed[i]);
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

/* The command stays out of it: it may hold secrets, and is of no use over a network. */
static void put_watch(struct json_writer *json, const struct watch_report *report)
{
	const struct watch_settings *const settings = &report->section.settings;

	json_object_begin(json);
	json_member_string(json, "target", report->name);
	json_key(json, "pid");
	if (report->pid != 0)
		json_put_integer(json, report->pid);
	else
		json_put_null(json);
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
	CLEANUP(buffer_cleanup) struct buffer body = { 0 };
	struct json_writer json;

	buffer_init(&body, &memory_or_exit);
	json_init(&json, &body);
	json_object_begin(&json);
	json_member_string(&json, "file", view->state.path);
	json_member_integer(&json, "read_ms", view->state.read_ms);
	put_error(&json, "problem", &view->state.problem);
	json_key(&json, "watches");
	json_array_begin(&json);
	for (size_t i = 0; i < view->count; i++)
		put_watch(&json, &view->reports[i]);
	json_array_end(&json);
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
}

void api_watch(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(watch_view_cleanup) struct watch_view view = { 0 };
	struct error err = { 0 };

	if (watch_view_take(gateway, request, &view, &err))
		reply_watches(&view, reply);
	else
		reply_failure(request, &err, reply);
}

void api_watches(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(watch_view_cleanup) struct watch_view view = { 0 };
	struct error err = { 0 };

	if (watch_view_take_all(gateway, &view, &err))
		reply_watches(&view, reply);
	else
		reply_failure(request, &err, reply);
}

/* Several processes of one name and section are one series, which outlives each of them. */
static bool is_same(const struct watch_report *a, const struct watch_report *b)
{
	return strcmp(a->name, b->name) == 0 && a->section.number == b->section.number &&
	       strcmp(a->section.pattern, b->section.pattern) == 0;
}

static size_t merge(struct watch_report *reports, size_t count)
{
	size_t merged = 0;

	for (size_t i = 0; i < count; i++) {
		size_t at = 0;
		while (at < merged && !is_same(&reports[at], &reports[i]))
			at++;
		if (at == merged) {
			reports[merged++] = reports[i];
			continue;
		}
		reports[at].captures += reports[i].captures;
		reports[at].failures += reports[i].failures;
		if (reports[i].captured_ms > reports[at].captured_ms)
			reports[at].captured_ms = reports[i].captured_ms;
		if (reports[i].state == WATCH_WATCHING)
			reports[at].state = WATCH_WATCHING;
	}
	return merged;
}

static double captures_of(const struct watch_report *report)
{
	return (double)report->captures;
}

static double failures_of(const struct watch_report *report)
{
	return (double)report->failures;
}

static double captured_at(const struct watch_report *report)
{
	return report->captured_ms == 0 ? -1 : (double)report->captured_ms / 1e3;
}

static double is_watching(const struct watch_report *report)
{
	return report->state == WATCH_WATCHING;
}

static const struct {
	const char *name;
	enum exposition_type type;
	double (*value)(const struct watch_report *report); /* negative: none */
	const char *help;
} families[] = {
	{ "heapctl_watch_up", EXPOSITION_GAUGE, is_watching,
		"1 while the target is there and under watch." },
	{ "heapctl_watch_captures", EXPOSITION_COUNTER, captures_of,
		"Profiles that the watch has captured." },
	{ "heapctl_watch_failures", EXPOSITION_COUNTER, failures_of,
		"Captures that failed; each is tried again." },
	{ "heapctl_watch_last_capture_timestamp_seconds", EXPOSITION_GAUGE, captured_at,
		"When the watch captured last, in seconds since 1970." },
};

static void put_sample(struct exposition *out, const struct watch_report *report, double value)
{
	CLEANUP(buffer_cleanup) struct buffer labels = { 0 };
	char section[WATCH_PATTERN_BYTES + 16];

	buffer_init(&labels, &memory_or_exit);
	snprintf(section, sizeof section, "%s", report->section.pattern);
	if (report->section.number > 1)
		snprintf(section, sizeof section, "%s#%u", report->section.pattern,
			report->section.number);
	exposition_label(&labels, "name", report->name);
	exposition_label(&labels, "section", section);
	exposition_sample(out, buffer_string(&labels), value);
}

void watch_metrics(struct gateway *gateway, const char *name, struct exposition *out)
{
	CLEANUP(free_cleanup) struct watch_report *reports = NULL;
	struct watch_manager_state state;

	if (gateway->watch_manager == NULL)
		return;
	size_t count = watch_manager_report(gateway->watch_manager, &state, &reports);
	count = merge(reports, count);
	for (size_t f = 0; f < sizeof families / sizeof families[0]; f++) {
		exposition_family(out, families[f].name, families[f].type, families[f].help);
		for (size_t i = 0; i < count; i++) {
			const double value = families[f].value(&reports[i]);
			if (value >= 0 && (name == NULL || watch_view_is_about(&reports[i], name)))
				put_sample(out, &reports[i], value);
		}
	}
	if (name != NULL)
		return;
	exposition_family(out, "heapctl_watch_file_good", EXPOSITION_GAUGE,
		"0 when the watch file could not be read again; the old rules are in force.");
	exposition_sample(out, "", state.problem.kind == ERROR_NONE);
}
