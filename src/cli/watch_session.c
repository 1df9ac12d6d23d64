/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch_session.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/user_name.h"
#include "base/xalloc.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "render/quantity.h"
#include "watch/watcher.h"
#include "client/target_resolve.h"

enum { SEARCH_MS = 1000, COMMAND_LOOK_MS = 100 };

struct session {
	const struct watch_options *options;
	struct store *store;
	struct watcher *watcher;
	uid_t owner; /* of the first process; later ones of the name are that user's too */
	int64_t searched_ms;
	char refusal[240]; /* of the last search that failed */
	bool is_refusal_reported;
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

static bool keep(void *context, struct watcher_capture *capture, struct error *err)
{
	const struct session *const session = context;

	return watcher_keep_in_store(session->store, capture, err);
}

static void print_captured(void *context, const struct watcher_capture *capture)
{
	struct session *const session = context;

	char resident[64] = "";

	if (capture->seen != NULL && !isnan(capture->seen->resident_bytes))
		snprintf(resident, sizeof resident, " at %s resident",
			quantity_format(QUANTITY_BYTES, capture->seen->resident_bytes, false).text);
	CLEANUP(free_cleanup) char *reason = terminal_copy(capture->reason);
	CLEANUP(free_cleanup) char *path = terminal_copy(capture->path);
	fprintf(stderr, "heapctl: watch: %s%s: a profile of %s\n", reason, resident,
		quantity_format(QUANTITY_BYTES, (double)capture->bytes, false).text);
	/* For scripts: only the path. */
	printf("%s\n", isatty(STDOUT_FILENO) ? path : capture->path);
	fflush(stdout);
	session->captured++;
}

static void print_failed(void *context, bool is_capture, const struct error *err)
{
	struct error said = *err;

	(void)context;
	(void)is_capture;
	error_prefix(&said, "watch");
	verb_fail(&said);
}

static void print_note(void *context, const char *line)
{
	(void)context;
	verb_warn("watch: %s", line);
}

static const char *label(const struct session *session)
{
	return watcher_target(session->watcher)->label;
}

static void print_targets(const struct session *session, const char *before, const char *after)
{
	CLEANUP(free_cleanup) char *shown = terminal_copy(label(session));

	fprintf(stderr, "heapctl: watch: %s%s%s\n", before, shown, after);
}

static bool attach(struct session *session, struct error *err)
{
	const char *const operand = session->options->operand;
	const uid_t owner =
		session->owner != USER_ANY ? session->owner : target_trusted_owner(operand);
	struct target target;

	if (!target_resolve_of(operand, owner, &target, err))
		return false;
	/* A target that hangs does not hold up the end. */
	target.cancel_fd = terminal_interrupt_fd();
	if (!watcher_attach(session->watcher, &target, err))
		return false;
	if (target.kind == TARGET_AGENT)
		session->owner = target.owner;
	return true;
}

static bool is_pid(const char *operand)
{
	return operand[strspn(operand, "0123456789")] == '\0';
}

/* Once, when two searches have found the same: one that was just started may have no agent yet. */
static void note_refusal(struct session *session, const struct error *err)
{
	if (strcmp(session->refusal, err->message) != 0) {
		session->is_refusal_reported = false;
		snprintf(session->refusal, sizeof session->refusal, "%s", err->message);
	} else if (!session->is_refusal_reported) {
		session->is_refusal_reported = true;
		print_failed(session, false, err);
	}
}

static void search_again(struct session *session)
{
	const int64_t now_ms = clock_boottime_ms();
	struct error err;

	if (now_ms - session->searched_ms < SEARCH_MS)
		return;
	session->searched_ms = now_ms;
	if (attach(session, &err))
		print_targets(session, "", " is there");
	else
		note_refusal(session, &err);
}

/* False ends the watch: what was named by its pid does not come back. */
static bool lose(struct session *session, struct error *err)
{
	if (is_pid(session->options->operand)) {
		error_prefix(err, "watch");
		return error_hint(
			err, "use its name instead of its pid to follow it through restarts");
	}
	verb_warn("watch: %s; waiting for it to come back", err->message);
	session->searched_ms = clock_boottime_ms();
	return true;
}

static bool is_over(const struct session *session)
{
	return terminal_was_interrupted() ||
	       (session->options->captures > 0 && session->captured >= session->options->captures);
}

static bool watch(struct session *session, struct error *err)
{
	while (!is_over(session)) {
		if (!watcher_is_attached(session->watcher))
			search_again(session);
		if (!watcher_poll(session->watcher, take_signal(), err) && !lose(session, err))
			return false;
		if (!is_over(session))
			watcher_wait(session->watcher, -1);
	}
	return true;
}

static bool open_folder(struct session *session, struct error *err)
{
	const struct watch_settings *const settings = &session->options->settings;
	const struct target *const target = watcher_target(session->watcher);
	char made_up[256];

	snprintf(made_up, sizeof made_up, "%s.captures",
		target->process.name[0] == '\0' ? target->file_stem : target->process.name);
	if (!store_open(settings->keep[0] == '\0' ? made_up : settings->keep, STORE_CAPTURES,
		    &settings->limits, &session->store, err))
		return false;
	watcher_use_store(session->watcher, session->store);
	return true;
}

static bool begin(struct session *session, struct error *err)
{
	if (!attach(session, err) || !open_folder(session, err))
		return false;
	terminal_catch_interrupts();
	sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = note_signal }, NULL);
	print_targets(session, "watching ", "");
	return true;
}

bool watch_session_run(const struct watch_options *options, struct error *err)
{
	struct session session = { .options = options, .owner = USER_ANY };
	const struct watcher_host host = {
		.context = &session,
		.keep = keep,
		.captured = print_captured,
		.failed = print_failed,
		.note = print_note,
	};

	session.watcher = watcher_new(&options->settings, &host);
	const bool ok = begin(&session, err) && watch(&session, err);
	while (!terminal_was_interrupted() && watcher_poll_command(session.watcher))
		terminal_sleep_ms(COMMAND_LOOK_MS);
	watcher_free(session.watcher);
	store_close(session.store);
	return ok;
}
