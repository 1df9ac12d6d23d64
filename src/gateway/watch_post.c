/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/watch_post.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "gateway/recorder.h"
#include "gateway/thread.h"
#include "watch/watcher.h"

enum { STACK_BYTES = 1024 * 1024, RETRY_MS = 10 * 1000, LINE_BYTES = 1000 };

struct watch_post {
	struct gateway *gateway;
	struct watch_folders *folders;
	pthread_t thread;
	int wake_fd;
	uint64_t incarnation; /* of the backend it was sent to; the watchman's */

	/* Of the thread alone. */
	struct watcher *watcher;
	struct backend *backend; /* NULL while there is none */
	struct capture_folder *folder;
	bool signalled;
	int64_t retry_ms;
	struct error said; /* the last refusal that was put into the log */

	pthread_mutex_t mutex; /* of what follows */
	struct watch_report report;
	bool is_dismissed, has_left, is_signalled;
	struct backend *sent; /* an order that was not taken yet; so is the next */
	struct watch_section *changed;
};

static void say(const struct watch_post *post, const char *text, const char *hint)
{
	char line[LINE_BYTES];

	if (post->gateway->log == NULL)
		return;
	snprintf(line, sizeof line, "watch: %s: %s%s%s%s", post->report.name, text,
		hint[0] == '\0' ? "" : " (", hint, hint[0] == '\0' ? "" : ")");
	post->gateway->log(line);
}

static bool keep_somewhere(
	struct watch_post *post, struct watcher_capture *capture, struct error *err)
{
	struct snapshot snapshot;

	if (post->folder != NULL)
		return watcher_keep_in_folder(post->folder, capture, err);
	if (!recorder_keep(post->gateway, post->backend, capture->reason, &snapshot, err))
		return false;
	snprintf(capture->path, sizeof capture->path, "%s/%s", store_folder(post->gateway->store),
		snapshot.file);
	capture->bytes = snapshot.file_bytes;
	return true;
}

static bool keep(void *context, struct watcher_capture *capture, struct error *err)
{
	struct watch_post *const post = context;

	__atomic_add_fetch(&post->gateway->counters.active, 1, __ATOMIC_RELAXED);
	const bool ok = keep_somewhere(post, capture, err);
	__atomic_sub_fetch(&post->gateway->counters.active, 1, __ATOMIC_RELAXED);
	return ok;
}

static void captured(void *context, const struct watcher_capture *capture)
{
	struct watch_post *const post = context;
	struct watch_report *const report = &post->report;
	char line[LINE_BYTES];

	pthread_mutex_lock(&post->mutex);
	report->captures++;
	report->captured_ms = clock_realtime_ms();
	report->bytes = capture->bytes;
	snprintf(report->reason, sizeof report->reason, "%s", capture->reason);
	snprintf(report->path, sizeof report->path, "%s", capture->path);
	pthread_mutex_unlock(&post->mutex);
	snprintf(line, sizeof line, "%s: captured into %s", capture->reason, capture->path);
	say(post, line, "");
}

static void failed(void *context, bool is_capture, const struct error *err)
{
	struct watch_post *const post = context;

	pthread_mutex_lock(&post->mutex);
	post->report.failures += is_capture;
	post->report.failed_ms = clock_realtime_ms();
	post->report.failure = *err;
	pthread_mutex_unlock(&post->mutex);
	say(post, err->message, err->hint);
}

static void note(void *context, const char *line)
{
	say(context, line, "");
}

static void set_state(
	struct watch_post *post, enum watch_state state, pid_t pid, const struct error *problem)
{
	pthread_mutex_lock(&post->mutex);
	post->report.state = state;
	post->report.pid = pid;
	post->report.problem = problem == NULL ? (struct error){ 0 } : *problem;
	pthread_mutex_unlock(&post->mutex);
}

/* A folder for each of a pattern's targets, so that none takes the room of another. */
void watch_report_folder(const struct watch_report *report, char path[4096])
{
	const struct watch_section *const section = &report->section;
	const char *const keep = section->settings.keep;
	const bool has_own = keep[0] != '\0' && watch_section_is_pattern(section);

	snprintf(path, 4096, "%s%s%s", keep, has_own ? "/" : "", has_own ? report->name : "");
}

static void leave_folder(struct watch_post *post)
{
	watcher_use_folder(post->watcher, NULL);
	watch_folders_give(post->folders, post->folder);
	post->folder = NULL;
}

/* The one that the section names, in place of the one before. */
static bool open_folder(struct watch_post *post, struct error *err)
{
	const struct watch_section *const section = &post->report.section;
	const struct watch_settings *const settings = &section->settings;
	struct capture_folder *folder = NULL;
	char path[4096];

	if (settings->keep[0] == '\0') {
		leave_folder(post);
		return true;
	}
	const bool is_pattern = watch_section_is_pattern(section);
	if (is_pattern && !file_make_folder(settings->keep, 0700, err))
		return false;
	watch_report_folder(&post->report, path);
	if (!watch_folders_take(post->folders, path, &settings->limits, &folder, err))
		return false;
	watcher_use_folder(post->watcher, folder);
	watch_folders_give(post->folders, post->folder);
	post->folder = folder;
	return true;
}

static void leave_backend(struct watch_post *post)
{
	backend_drop(post->backend);
	post->backend = NULL;
}

static void attach(struct watch_post *post)
{
	struct error err = { 0 };
	char line[LINE_BYTES];

	if (clock_boottime_ms() < post->retry_ms)
		return;
	if (open_folder(post, &err) &&
		watcher_attach(post->watcher, &post->backend->target, &err)) {
		post->said = (struct error){ 0 };
		set_state(post, WATCH_WATCHING, post->backend->pid, NULL);
		snprintf(line, sizeof line, "watching %s", post->backend->target.label);
		say(post, line, "");
		return;
	}
	if (err.kind == ERROR_NOT_FOUND) {
		leave_backend(post);
		set_state(post, WATCH_WAITING, 0, NULL);
		return;
	}
	post->retry_ms = clock_boottime_ms() + RETRY_MS;
	set_state(post, WATCH_REFUSED, post->backend->pid, &err);
	if (strcmp(post->said.message, err.message) != 0)
		say(post, err.message, err.hint);
	post->said = err;
}

static void change(struct watch_post *post, const struct watch_section *section)
{
	struct error err;

	pthread_mutex_lock(&post->mutex);
	post->report.section = *section;
	pthread_mutex_unlock(&post->mutex);
	watcher_change(post->watcher, &section->settings);
	/*
	 * What jemalloc wrote at the end of a target that is gone is still to be taken. Why it
	 * fails is told when the target is there and it fails again.
	 */
	if (post->backend == NULL && !open_folder(post, &err))
		leave_folder(post);
	post->retry_ms = 0;
}

/* False when it is to end. */
static bool take_orders(struct watch_post *post)
{
	uint64_t count;

	/* Empty when it is the time that came. */
	(void)!read(post->wake_fd, &count, sizeof count);
	pthread_mutex_lock(&post->mutex);
	const bool is_dismissed = post->is_dismissed;
	struct backend *const sent = TAKE(post->sent);
	CLEANUP(free_cleanup) struct watch_section *section = TAKE(post->changed);
	post->signalled = post->is_signalled;
	post->is_signalled = false;
	pthread_mutex_unlock(&post->mutex);
	if (section != NULL)
		change(post, section);
	if (sent != NULL) {
		leave_backend(post);
		post->backend = sent;
		post->retry_ms = 0;
	}
	/* Sent elsewhere: what it looks at now is not its target any more. */
	if (sent != NULL && watcher_is_attached(post->watcher))
		watcher_detach(post->watcher);
	return !is_dismissed;
}

static void publish(struct watch_post *post)
{
	pthread_mutex_lock(&post->mutex);
	for (size_t i = 0; i < TRIGGER_RULES_MAX; i++)
		post->report.armed[i] = watcher_is_armed(post->watcher, i);
	pthread_mutex_unlock(&post->mutex);
}

static void take_turn(struct watch_post *post)
{
	char line[LINE_BYTES];
	struct error err;

	if (post->backend != NULL && !watcher_is_attached(post->watcher))
		attach(post);
	if (!watcher_turn(post->watcher, post->signalled, &err)) {
		leave_backend(post);
		set_state(post, WATCH_WAITING, 0, NULL);
		snprintf(line, sizeof line, "%s; waiting for it to come back", err.message);
		say(post, line, "");
	}
	publish(post);
}

static void *work(void *context)
{
	struct watch_post *const post = context;

	while (take_orders(post)) {
		take_turn(post);
		watcher_wait(post->watcher, post->wake_fd);
	}
	pthread_mutex_lock(&post->mutex);
	post->has_left = true;
	pthread_mutex_unlock(&post->mutex);
	return NULL;
}

static void post_free(struct watch_post *post)
{
	watcher_free(post->watcher);
	backend_drop(post->backend);
	backend_drop(post->sent);
	free(post->changed);
	watch_folders_give(post->folders, post->folder);
	if (post->wake_fd >= 0)
		close(post->wake_fd);
	pthread_mutex_destroy(&post->mutex);
	free(post);
}

static bool start_work(struct watch_post *post, struct error *err)
{
	post->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (post->wake_fd < 0)
		return error_system(err, errno, "starting a watch");
	return thread_start(&post->thread, STACK_BYTES, work, post, "a watch", err);
}

bool watch_post_start(struct gateway *gateway, struct watch_folders *folders,
	const struct watch_section *section, const char *name, struct watch_post **ret,
	struct error *err)
{
	struct watch_post *const post = xcalloc(1, sizeof *post);
	const struct watcher_host host = {
		.context = post, .keep = keep, .captured = captured, .failed = failed, .note = note
	};

	post->gateway = gateway;
	post->folders = folders;
	post->report.section = *section;
	snprintf(post->report.name, sizeof post->report.name, "%s", name);
	pthread_mutex_init(&post->mutex, NULL);
	post->watcher = watcher_new(&section->settings, &host);
	if (!start_work(post, err)) {
		post_free(post);
		return false;
	}
	*ret = post;
	return true;
}

static void wake(const struct watch_post *post)
{
	const uint64_t one = 1;

	(void)!write(post->wake_fd, &one, sizeof one);
}

void watch_post_send(struct watch_post *post, struct backend *backend)
{
	post->incarnation = backend->incarnation;
	pthread_mutex_lock(&post->mutex);
	backend_drop(post->sent);
	post->sent = backend_share(backend);
	pthread_mutex_unlock(&post->mutex);
	wake(post);
}

void watch_post_change(struct watch_post *post, const struct watch_section *section)
{
	struct watch_section *const own = xmalloc(sizeof *own);

	*own = *section;
	pthread_mutex_lock(&post->mutex);
	free(post->changed);
	post->changed = own;
	pthread_mutex_unlock(&post->mutex);
	wake(post);
}

void watch_post_signal(struct watch_post *post)
{
	pthread_mutex_lock(&post->mutex);
	post->is_signalled = true;
	pthread_mutex_unlock(&post->mutex);
	wake(post);
}

void watch_post_dismiss(struct watch_post *post)
{
	pthread_mutex_lock(&post->mutex);
	post->is_dismissed = true;
	pthread_mutex_unlock(&post->mutex);
	wake(post);
}

bool watch_post_has_left(struct watch_post *post)
{
	pthread_mutex_lock(&post->mutex);
	const bool has_left = post->has_left;
	pthread_mutex_unlock(&post->mutex);
	return has_left;
}

void watch_post_join(struct watch_post *post)
{
	pthread_join(post->thread, NULL);
	post_free(post);
}

void watch_post_report(struct watch_post *post, struct watch_report *report)
{
	pthread_mutex_lock(&post->mutex);
	*report = post->report;
	pthread_mutex_unlock(&post->mutex);
}

const char *watch_post_name(const struct watch_post *post)
{
	/* Written once, before the thread began. */
	return post->report.name;
}

uint64_t watch_post_incarnation(const struct watch_post *post)
{
	return post->incarnation;
}

bool watch_post_is_vacant(struct watch_post *post)
{
	pthread_mutex_lock(&post->mutex);
	const bool is_vacant = post->report.state == WATCH_WAITING && post->sent == NULL;
	pthread_mutex_unlock(&post->mutex);
	return is_vacant;
}
