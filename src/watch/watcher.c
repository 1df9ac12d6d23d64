/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/watcher.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "watch/dump_collector.h"
#include "watch/command.h"
#include "watch/observer.h"
#include "watch/recorder.h"

enum {
	LINE_BYTES = 400,
	COMMAND_LOOK_MS = 1000,
	DUMPS_AT_ONCE = 16,
	SOONEST_LOOK_MS = 50,
	/* Between two notes about removed dumps. */
	DROPPED_MS = 60 * 1000,
};

/* As fast as a process may fill memory: 2 GiB in a second. */
static const double FILLED_IN_A_MS = 2.0 * 1024 * 1024 * 1024 / 1000;

struct watcher {
	struct watch_settings settings;
	struct watcher_host host;
	struct store *store;
	struct trigger *trigger;
	struct observer observer;
	json_t *status; /* of the target's agent, when it was attached; NULL before */
	struct dump_collector *dump_collector; /* NULL for none; the same for the command */
	struct command *command;
	char dump_collector_problem[240]; /* the last one reported; "" for none */
	/* Why a rule can never be true for the target; "" where it can. */
	char rule_problems[TRIGGER_RULES_MAX][WATCHER_RULE_PROBLEM_BYTES];
	bool has_noted_room; /* that there is none for captures */
	size_t dropped;	     /* not reported yet */
	int64_t dropped_reported_ms;
	bool is_attached;
};

/* Their texts were parsed when they were taken. */
static void make_helpers(struct watcher *watcher, bool new_command)
{
	const struct watch_settings *const settings = &watcher->settings;
	struct error impossible;

	dump_collector_free(watcher->dump_collector);
	watcher->dump_collector = NULL;
	if (settings->adopt[0] != '\0' &&
		!dump_collector_new(settings->adopt, &watcher->dump_collector, &impossible))
		watcher->dump_collector = NULL;
	if (!new_command)
		return;
	command_free(watcher->command);
	watcher->command = NULL;
	if (settings->then[0] != '\0' &&
		!command_parse(settings->then, &watcher->command, &impossible))
		watcher->command = NULL;
}

struct watcher *watcher_new(const struct watch_settings *settings, const struct watcher_host *host)
{
	struct watcher *const watcher = xcalloc(1, sizeof *watcher);

	watcher->settings = *settings;
	watcher->host = *host;
	watcher->trigger = trigger_new(&settings->trigger, settings->rules, settings->rule_count);
	make_helpers(watcher, true);
	return watcher;
}

void watcher_free(struct watcher *watcher)
{
	if (watcher == NULL)
		return;
	trigger_free(watcher->trigger);
	dump_collector_free(watcher->dump_collector);
	command_free(watcher->command);
	observer_close(&watcher->observer);
	json_decref(watcher->status);
	free(watcher);
}

void watcher_detach(struct watcher *watcher)
{
	watcher->is_attached = false;
}

bool watcher_is_attached(const struct watcher *watcher)
{
	return watcher->is_attached;
}

const struct target *watcher_target(const struct watcher *watcher)
{
	return &watcher->observer.target;
}

const char *watcher_rule_problem(const struct watcher *watcher, size_t rule)
{
	return watcher->is_attached && rule < watcher->settings.rule_count
		       ? watcher->rule_problems[rule]
		       : "";
}

bool watcher_is_armed(const struct watcher *watcher, size_t rule)
{
	return trigger_is_armed(watcher->trigger, rule);
}

static void note(const struct watcher *watcher, const char *line)
{
	watcher->host.note(watcher->host.context, line);
}

static void fail(const struct watcher *watcher, bool is_capture, const struct error *err)
{
	watcher->host.failed(watcher->host.context, is_capture, err);
}

static void note_list_damage(const struct watcher *watcher)
{
	CLEANUP(free_cleanup) char *damage = store_take_list_damage(watcher->store);
	char line[LINE_BYTES];

	if (damage == NULL)
		return;
	snprintf(line, sizeof line,
		"%s: captures without a line are listed by their names, without reason and figures",
		damage);
	note(watcher, line);
}

void watcher_use_store(struct watcher *watcher, struct store *store)
{
	char line[LINE_BYTES];
	struct error err;

	watcher->store = store;
	if (store != NULL)
		note_list_damage(watcher);
	if (store == NULL || store_check_room(store, &err)) {
		watcher->has_noted_room = false;
		return;
	}
	/* Reported before the first capture is due, and once. */
	if (watcher->has_noted_room)
		return;
	watcher->has_noted_room = true;
	snprintf(line, sizeof line, "nothing can be captured now: %s (%s)", err.message, err.hint);
	note(watcher, line);
}

/* Without sampling the captures are empty. */
static bool prepare_sampling(const struct watcher *watcher, const struct target *target,
	json_t **status, struct error *err)
{
	CLEANUP(json_cleanup) json_t *activated = NULL;
	char line[LINE_BYTES];

	if (!agent_check_profiling(target, status, err))
		return false;
	if (json_flag(*status, "profiling.active"))
		return true;
	if (watcher->settings.activate)
		return agent_call_json(target, "POST", "/v1/activate", &activated, err);
	snprintf(line, sizeof line,
		"sampling is off in %s: captures contain only earlier samples (heapctl activate, "
		"or activate in the watch)",
		target->label);
	note(watcher, line);
	return true;
}

/*
 * A condition that can never be observed for this target, such as a limit that its control group
 * does not have, is only noted. False when no other is left.
 */
static bool check_rules(struct watcher *watcher, const struct observer *observer, struct error *err)
{
	const size_t count = watcher->settings.rule_count;
	char line[LINE_BYTES];
	size_t seen = 0;
	struct error why = { 0 };

	for (size_t i = 0; i < count; i++) {
		const bool is_seen =
			observer_check_rule(observer, &watcher->settings.rules[i], &why);
		seen += is_seen;
		snprintf(watcher->rule_problems[i], WATCHER_RULE_PROBLEM_BYTES, "%s",
			is_seen ? "" : why.message);
	}
	if (seen == 0 && count > 0 && watcher->settings.adopt[0] == '\0') {
		*err = why;
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		if (watcher->rule_problems[i][0] == '\0')
			continue;
		snprintf(line, sizeof line, "`%s` is never true here: %s",
			watcher->settings.rules[i].text, watcher->rule_problems[i]);
		note(watcher, line);
	}
	return true;
}

/* Notes which of the two it is: they differ by ten seconds. */
static void watch_pressure(const struct watcher *watcher, struct observer *observer)
{
	char line[LINE_BYTES];
	struct error err;
	bool is_wanted = false, ok = true;

	for (size_t i = 0; i < watcher->settings.rule_count; i++) {
		const struct condition_rule *const rule = &watcher->settings.rules[i];
		is_wanted |= condition_has(rule, CONDITION_PRESSURE);
		ok = ok && observer_request_pressure(observer, rule, &err);
	}
	if (!is_wanted)
		return;
	if (ok)
		snprintf(line, sizeof line,
			"memory pressure of %s: reported by the kernel (%.200s)",
			observer->target.label, observer->pressure_path);
	else
		snprintf(line, sizeof line,
			"memory pressure of %s: read at intervals, because the kernel does not "
			"report it (%.240s)",
			observer->target.label, err.message);
	note(watcher, line);
}

bool watcher_attach(struct watcher *watcher, const struct target *target, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct observer observer;

	if (!observer_open(target, &observer, err))
		return false;
	if (!check_rules(watcher, &observer, err) ||
		!prepare_sampling(watcher, target, &status, err)) {
		observer_close(&observer);
		return false;
	}
	watch_pressure(watcher, &observer);
	observer_close(&watcher->observer);
	watcher->observer = observer;
	json_decref(watcher->status);
	watcher->status = TAKE(status);
	watcher->is_attached = true;
	return true;
}

void watcher_change(struct watcher *watcher, const struct watch_settings *settings)
{
	const bool new_command = strcmp(watcher->settings.then, settings->then) != 0;
	struct trigger *const trigger = trigger_renew(
		watcher->trigger, &settings->trigger, settings->rules, settings->rule_count);

	trigger_free(watcher->trigger);
	watcher->trigger = trigger;
	watcher->settings = *settings;
	make_helpers(watcher, new_command);
	/* New conditions may need other readings of the observer, and be refused. */
	watcher->is_attached = false;
}

static void announce(struct watcher *watcher, const struct watcher_capture *capture)
{
	const struct command_capture described = { capture->path, watcher->observer.target.label,
		capture->reason };
	struct error err;

	watcher->host.captured(watcher->host.context, capture);
	if (watcher->command != NULL && !command_enqueue(watcher->command, &described, &err))
		fail(watcher, false, &err);
}

bool watcher_keep_in_store(struct store *store, struct watcher_capture *capture, struct error *err)
{
	struct snapshot snapshot = { 0 };

	recorder_identify(&snapshot, capture->target, capture->status);
	snprintf(snapshot.reason, sizeof snapshot.reason, "%s", capture->reason);
	if (!recorder_capture(store, capture->target, capture->seen, &snapshot, err))
		return false;
	snprintf(capture->path, sizeof capture->path, "%s/%s", store_folder(store), snapshot.file);
	capture->bytes = snapshot.file_bytes;
	return true;
}

/* Also notes limits that the new group does not have. */
static void note_group(struct watcher *watcher)
{
	const struct observer *const observer = &watcher->observer;
	char line[LINE_BYTES];
	struct error err;

	snprintf(line, sizeof line, "%s was put into another control group%s%.200s",
		observer->target.label, observer->group.folder[0] == '\0' ? "" : ": ",
		observer->group.folder);
	note(watcher, line);
	if (!check_rules(watcher, observer, &err))
		fail(watcher, false, &err);
}

/* False when the target is gone. */
static bool observe(struct watcher *watcher, bool signalled, struct error *err)
{
	struct trigger_observation seen = { .now_ms = clock_boottime_ms(), .signalled = signalled };
	struct watcher_capture taken = {
		.target = &watcher->observer.target, .status = watcher->status, .seen = &seen
	};
	struct error failure;

	if (!observer_read(&watcher->observer, &seen, err))
		return false;
	if (watcher->observer.has_new_group)
		note_group(watcher);
	const struct condition_rule *const rule = trigger_step(watcher->trigger, &seen);
	if (rule == NULL)
		return true;
	taken.reason = rule->text;
	const bool ok = watcher->host.keep(watcher->host.context, &taken, &failure);
	trigger_captured(watcher->trigger, ok, clock_boottime_ms());
	if (ok) {
		announce(watcher, &taken);
	} else {
		error_prefix(&failure, "no capture for %s", rule->text);
		fail(watcher, true, &failure);
	}
	return true;
}

/* Once, not at each poll, nor for each file that a full disk has no room for. */
static void fail_collection(struct watcher *watcher, const struct error *err)
{
	if (strcmp(err->message, watcher->dump_collector_problem) != 0)
		fail(watcher, false, err);
	snprintf(watcher->dump_collector_problem, sizeof watcher->dump_collector_problem, "%s",
		err->message);
}

/* At intervals: a program that writes dumps all the time must not fill the log. */
static void note_dropped(struct watcher *watcher, size_t dropped, int64_t now_ms)
{
	char line[LINE_BYTES];

	watcher->dropped += dropped;
	if (watcher->dropped == 0 || (watcher->dropped_reported_ms != 0 &&
					     now_ms - watcher->dropped_reported_ms < DROPPED_MS))
		return;
	snprintf(line, sizeof line, "removed %zu of jemalloc's files at %.200s: keep-count is %zu",
		watcher->dropped, watcher->settings.adopt, watcher->settings.limits.count);
	note(watcher, line);
	watcher->dropped = 0;
	watcher->dropped_reported_ms = now_ms;
}

enum collected { COLLECTED_NONE, COLLECTED_ONE, COLLECTED_FAILED };

static enum collected collect_dump(struct watcher *watcher, int64_t now_ms)
{
	struct watcher_capture taken = { .target = &watcher->observer.target };
	struct snapshot snapshot = { 0 };
	struct dump dump;
	struct error err;

	if (!dump_collector_next(watcher->dump_collector, now_ms, &dump, &err)) {
		fail_collection(watcher, &err);
		return COLLECTED_FAILED;
	}
	if (dump.fd < 0)
		return COLLECTED_NONE;
	recorder_identify(&snapshot, taken.target, watcher->status);
	const bool ok = recorder_take_dump(watcher->store, &dump, &snapshot, &err);
	close(dump.fd);
	if (!ok) {
		fail_collection(watcher, &err);
		return COLLECTED_FAILED;
	}
	taken.reason = snapshot.reason;
	taken.bytes = snapshot.file_bytes;
	snprintf(taken.path, sizeof taken.path, "%s/%s", store_folder(watcher->store),
		snapshot.file);
	announce(watcher, &taken);
	return COLLECTED_ONE;
}

/* A few in a turn: the conditions shall be checked meanwhile. */
static void collect_dumps(struct watcher *watcher)
{
	const int64_t now_ms = clock_boottime_ms();
	enum collected collected = COLLECTED_ONE;
	bool has_failed = false;
	size_t dropped = 0;
	struct error err;

	if (watcher->dump_collector == NULL || watcher->store == NULL)
		return;
	if (!dump_collector_scan(watcher->dump_collector, now_ms, watcher->settings.limits.count,
		    &dropped, &err)) {
		fail_collection(watcher, &err);
		return;
	}
	note_dropped(watcher, dropped, now_ms);
	for (int i = 0; i < DUMPS_AT_ONCE && collected != COLLECTED_NONE; i++) {
		collected = collect_dump(watcher, now_ms);
		has_failed |= collected == COLLECTED_FAILED;
	}
	if (!has_failed)
		watcher->dump_collector_problem[0] = '\0';
}

bool watcher_poll_command(struct watcher *watcher)
{
	struct error err;

	if (watcher->command == NULL)
		return false;
	if (!command_poll(watcher->command, &err))
		fail(watcher, false, &err);
	return command_is_busy(watcher->command);
}

bool watcher_poll(struct watcher *watcher, bool signalled, struct error *err)
{
	if (watcher->is_attached)
		watcher->is_attached = observe(watcher, signalled, err);
	else
		*err = (struct error){ 0 };
	const bool is_lost = !watcher->is_attached && err->kind != ERROR_NONE;
	collect_dumps(watcher);
	(void)watcher_poll_command(watcher);
	return !is_lost;
}

/*
 * Whether a rule waits for the limit of the control group to come near. What is left of it may be
 * filled before the next look is due, and the OOM killer leaves nothing to capture.
 */
static bool awaits_limit(const struct watcher *watcher)
{
	for (size_t i = 0; i < watcher->settings.rule_count; i++) {
		if (condition_has(&watcher->settings.rules[i], CONDITION_CGROUP) &&
			trigger_is_armed(watcher->trigger, i))
			return watcher->is_attached;
	}
	return false;
}

void watcher_wait(struct watcher *watcher, int other)
{
	const bool is_busy = watcher->command != NULL && command_is_busy(watcher->command);
	int64_t timeout_ms = watcher->settings.interval_ms;

	if (is_busy && timeout_ms > COMMAND_LOOK_MS)
		timeout_ms = COMMAND_LOOK_MS;
	if (awaits_limit(watcher) &&
		watcher->observer.left_bytes / FILLED_IN_A_MS < (double)timeout_ms)
		timeout_ms = (int64_t)fmax(
			watcher->observer.left_bytes / FILLED_IN_A_MS, SOONEST_LOOK_MS);
	pressure_wait(&watcher->observer.pressure, other, timeout_ms);
}
