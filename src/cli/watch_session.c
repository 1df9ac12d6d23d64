/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch_session.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "client/agent_client.h"
#include "render/quantity.h"
#include "watch/observer.h"

enum { SEARCH_MS = 1000, COMMAND_LOOK_MS = 100 };

struct session {
	const struct watch_options *options;
	struct capture_folder *folder;
	struct trigger *trigger;
	struct observer observer;
	bool is_attached;
	int64_t searched_ms;
	int64_t captured; /* by rules and from jemalloc */
};

static volatile sig_atomic_t signals_seen;

static void note_signal(int number)
{
	(void)number;
	signals_seen = 1;
}

static bool take_signal(void)
{
	const bool was_seen = signals_seen != 0;

	signals_seen = 0;
	return was_seen;
}

static const char *label(const struct session *session)
{
	return session->observer.target.label;
}

/* Sampling must be on, or there will be nothing in the captures. */
static bool prepare_sampling(const struct session *session, struct error *err)
{
	const struct target *const target = &session->observer.target;
	CLEANUP(json_cleanup) json_t *status = NULL;
	CLEANUP(json_cleanup) json_t *activated = NULL;

	if (!agent_call_json(target, "GET", "/v1/status", &status, err))
		return false;
	if (!json_flag(status, "profiling.available")) {
		error_set(err, ERROR_UNSUPPORTED, "%s cannot be profiled: %s", label(session),
			json_text(status, "profiling.reason"));
		return error_hint(err, "%s", json_text(status, "profiling.cure"));
	}
	if (json_flag(status, "profiling.active"))
		return true;
	if (session->options->activate)
		return agent_call_json(target, "POST", "/v1/activate", &activated, err);
	verb_warn(
		"watch: sampling is off in %s: captures hold what was sampled before, if anything "
		"(heapctl activate, or --activate)",
		label(session));
	return true;
}

static bool attach(struct session *session, struct error *err)
{
	const struct watch_options *const options = session->options;
	struct target target;

	if (!target_resolve(options->operand, &target, err) ||
		!observer_open(&target, &session->observer, err))
		return false;
	for (size_t i = 0; i < options->rule_count; i++) {
		if (!observer_check_rule(&session->observer, &options->rules[i], err))
			return false;
	}
	if (!prepare_sampling(session, err))
		return false;
	session->is_attached = true;
	return true;
}

static bool is_pid(const char *operand)
{
	return operand[strspn(operand, "0123456789")] == '\0';
}

static void search_again(struct session *session, int64_t now_ms)
{
	struct error err;

	if (now_ms - session->searched_ms < SEARCH_MS)
		return;
	session->searched_ms = now_ms;
	if (attach(session, &err))
		fprintf(stderr, "heapctl: watch: %s is there\n", label(session));
}

/* False ends the watch: what was named by its pid does not come back. */
static bool lose(struct session *session, int64_t now_ms, struct error *err)
{
	if (is_pid(session->options->operand)) {
		error_prefix(err, "watch");
		return error_hint(err, "name it instead of its pid to follow it through restarts");
	}
	verb_warn("watch: %s; waiting for it to come back", err->message);
	session->is_attached = false;
	session->searched_ms = now_ms;
	return true;
}

static json_t *describe(const struct session *session, const struct condition_rule *rule,
	const struct trigger_observation *seen)
{
	const struct target *const target = &session->observer.target;
	json_t *const details = json_pack("{s:s, s:I, s:s, s:i}", "reason", rule->text, "time_ms",
		(json_int_t)clock_realtime_ms(), "target", target->label, "pid",
		(int)target->process.pid);

	if (!isnan(seen->resident_bytes))
		json_object_set_new(
			details, "resident_bytes", json_integer((json_int_t)seen->resident_bytes));
	if (!isnan(seen->cgroup_share))
		json_object_set_new(details, "cgroup_share", json_real(seen->cgroup_share));
	if (!isnan(seen->pressure_share))
		json_object_set_new(details, "pressure_share", json_real(seen->pressure_share));
	return details;
}

static void announce(struct session *session, const char *path, const char *reason, uint64_t bytes)
{
	struct error err;

	fprintf(stderr, "heapctl: watch: %s: %s\n", reason,
		quantity_format(QUANTITY_BYTES, (double)bytes, false).text);
	printf("%s\n", path);
	fflush(stdout);
	session->captured++;
	const struct command_occasion occasion = { path, label(session), reason };
	if (session->options->command != NULL &&
		!command_enqueue(session->options->command, &occasion, &err))
		verb_fail(&err);
}

static bool capture(struct session *session, const struct condition_rule *rule,
	const struct trigger_observation *seen, struct error *err)
{
	const struct target *const target = &session->observer.target;
	CLEANUP(http_answer_cleanup) struct http_answer answer;
	struct file_draft draft = { .fd = -1 };
	char tag[40] = "capture";

	http_answer_init(&answer);
	if (!isnan(seen->resident_bytes))
		snprintf(tag, sizeof tag, "rss%.0fMiB", seen->resident_bytes / 1048576);
	if (!capture_folder_begin(session->folder, tag, target->file_stem, &draft, err))
		return false;
	if (!agent_fetch_profile(target, "/v1/profile", draft.fd, draft.path, &answer, err) ||
		!capture_folder_commit(
			session->folder, &draft, describe(session, rule, seen), err)) {
		file_draft_discard(&draft);
		return false;
	}
	announce(session, draft.path, rule->text, answer.body_bytes);
	return true;
}

/* One look at the target. False ends the watch. */
static bool look(struct session *session, int64_t now_ms, struct error *err)
{
	struct trigger_observation seen = { .now_ms = now_ms, .signalled = take_signal() };
	struct error failure;

	if (!observer_look(&session->observer, &seen, err))
		return lose(session, now_ms, err);
	const struct condition_rule *const rule = trigger_step(session->trigger, &seen);
	if (rule == NULL)
		return true;
	const bool ok = capture(session, rule, &seen, &failure);
	trigger_captured(session->trigger, ok, clock_boottime_ms());
	if (!ok) {
		error_prefix(&failure, "watch: no capture for %s", rule->text);
		verb_fail(&failure);
	}
	return true;
}

static void adopt(struct session *session, int64_t now_ms)
{
	const char *reason = NULL;
	char path[4096];
	struct error err;

	if (session->options->adoption == NULL)
		return;
	do {
		const uint64_t before = capture_folder_bytes(session->folder);
		if (!adoption_take(session->options->adoption, session->folder, now_ms, path,
			    &reason, &err)) {
			error_prefix(&err, "watch");
			verb_fail(&err);
			return;
		}
		const uint64_t after = capture_folder_bytes(session->folder);
		if (path[0] != '\0')
			announce(session, path, reason, after > before ? after - before : 0);
	} while (path[0] != '\0');
}

static void attend_command(const struct session *session)
{
	struct error err;

	if (session->options->command == NULL || command_attend(session->options->command, &err))
		return;
	error_prefix(&err, "watch");
	verb_fail(&err);
}

static bool is_over(const struct session *session)
{
	return terminal_was_interrupted() ||
	       (session->options->captures > 0 && session->captured >= session->options->captures);
}

static bool watch(struct session *session, struct error *err)
{
	while (!is_over(session)) {
		const int64_t now_ms = clock_boottime_ms();
		if (!session->is_attached)
			search_again(session, now_ms);
		if (session->is_attached && !look(session, now_ms, err))
			return false;
		adopt(session, now_ms);
		attend_command(session);
		if (!is_over(session))
			terminal_sleep_ms(session->options->interval_ms);
	}
	return true;
}

static bool begin(struct session *session, struct error *err)
{
	const struct watch_options *const options = session->options;
	char made_up[256];

	if (!attach(session, err))
		return false;
	snprintf(made_up, sizeof made_up, "%s.captures",
		session->observer.target.process.name[0] == '\0'
			? session->observer.target.file_stem
			: session->observer.target.process.name);
	if (!capture_folder_open(options->folder == NULL ? made_up : options->folder,
		    &options->limits, &session->folder, err))
		return false;
	session->trigger = trigger_new(&options->trigger, options->rules, options->rule_count);
	terminal_catch_interrupts();
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = note_signal }, NULL);
	fprintf(stderr, "heapctl: watch: watching %s\n", label(session));
	return true;
}

bool watch_session_run(const struct watch_options *options, struct error *err)
{
	struct session session = { .options = options };
	bool ok = begin(&session, err) && watch(&session, err);

	while (options->command != NULL && command_is_busy(options->command) &&
		!terminal_was_interrupted()) {
		attend_command(&session);
		terminal_sleep_ms(COMMAND_LOOK_MS);
	}
	trigger_free(session.trigger);
	capture_folder_close(session.folder);
	return ok;
}
