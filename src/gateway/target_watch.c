/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/target_watch.h"

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
#include "gateway/interval_recorder.h"

enum { STACK_BYTES = 1024 * 1024, RETRY_MS = 10 * 1000, LINE_BYTES = 1000 };

struct watch_folder {
	struct watch_folder *next;
	char *path;
	struct store *store;
	unsigned users;
};

void watch_folders_init(struct watch_folders *folders)
{
	*folders = (struct watch_folders){ 0 };
	pthread_mutex_init(&folders->mutex, NULL);
}

void watch_folders_deinit(struct watch_folders *folders)
{
	pthread_mutex_destroy(&folders->mutex);
}

/* With the mutex held. */
static bool take_folder(struct watch_folders *folders, const char *path,
	const struct store_limits *limits, struct store **store, struct error *err)
{
	struct store *opened = NULL;

	for (struct watch_folder *item = folders->items; item != NULL; item = item->next) {
		if (strcmp(item->path, path) == 0) {
			item->users++;
			store_set_limits(item->store, limits);
			*store = item->store;
			return true;
		}
	}
	if (!store_open(path, STORE_CAPTURES, limits, &opened, err))
		return false;
	struct watch_folder *const item = xcalloc(1, sizeof *item);
	*item = (struct watch_folder){ folders->items, xstrdup(path), opened, 1 };
	folders->items = item;
	*store = opened;
	return true;
}

/* Opens the store in that folder, or shares it; the last caller sets the limits. Give it back. */
static bool watch_folders_take(struct watch_folders *folders, const char *path,
	const struct store_limits *limits, struct store **store, struct error *err)
{
	pthread_mutex_lock(&folders->mutex);
	const bool ok = take_folder(folders, path, limits, store, err);
	pthread_mutex_unlock(&folders->mutex);
	return ok;
}

/* NULL is fine. */
static void watch_folders_give(struct watch_folders *folders, struct store *store)
{
	if (store == NULL)
		return;
	pthread_mutex_lock(&folders->mutex);
	struct watch_folder **place = &folders->items;
	while ((*place)->store != store)
		place = &(*place)->next;
	struct watch_folder *const item = *place;
	if (--item->users == 0) {
		*place = item->next;
		store_close(item->store);
		free(item->path);
		free(item);
	}
	pthread_mutex_unlock(&folders->mutex);
}

struct target_watch {
	struct gateway *gateway;
	struct watch_folders *folders;
	pthread_t thread;
	int wake_fd;
	uint64_t generation; /* of the assigned backend; the watch_manager's */

	/* Of the thread alone. */
	struct watcher *watcher;
	struct backend *backend; /* NULL while there is none */
	struct store *store;
	bool signalled;
	int64_t retry_ms;
	struct error logged; /* the last refusal in the log */

	pthread_mutex_t mutex; /* of what follows */
	struct watch_report report;
	bool is_stopping, has_stopped, is_signalled;
	struct backend *sent; /* a request that the thread has not handled yet; so is the next */
	struct watch_section *changed;
};

static void log_line(const struct target_watch *watch, const char *text, const char *hint)
{
	char line[LINE_BYTES];

	if (watch->gateway->log == NULL)
		return;
	snprintf(line, sizeof line, "watch: %s: %s%s%s%s", watch->report.name, text,
		hint[0] == '\0' ? "" : " (", hint, hint[0] == '\0' ? "" : ")");
	watch->gateway->log(line);
}

static bool keep_somewhere(
	struct target_watch *watch, struct watcher_capture *capture, struct error *err)
{
	struct snapshot snapshot;

	if (watch->store != NULL) {
		const bool is_kept = watcher_keep_in_store(watch->store, capture, err);
		if (store_take_replaced(watch->store))
			log_line(watch,
				"the folder of its captures was removed or replaced; they continue "
				"in the folder that has its name now",
				"");
		return is_kept;
	}
	if (!interval_recorder_keep(
		    watch->gateway, watch->backend, capture->reason, &snapshot, err))
		return false;
	snprintf(capture->path, sizeof capture->path, "%s/%s", store_folder(watch->gateway->store),
		snapshot.file);
	capture->bytes = snapshot.file_bytes;
	return true;
}

static bool keep(void *context, struct watcher_capture *capture, struct error *err)
{
	struct target_watch *const watch = context;

	__atomic_add_fetch(&watch->gateway->counters.active, 1, __ATOMIC_RELAXED);
	const bool ok = keep_somewhere(watch, capture, err);
	__atomic_sub_fetch(&watch->gateway->counters.active, 1, __ATOMIC_RELAXED);
	return ok;
}

/* Under the mutex, with whatever else of the report changes at that moment. */
static void report_rules(struct target_watch *watch)
{
	for (size_t i = 0; i < TRIGGER_RULES_MAX; i++) {
		watch->report.armed[i] = watcher_is_armed(watch->watcher, i);
		snprintf(watch->report.rule_problems[i], WATCHER_RULE_PROBLEM_BYTES, "%s",
			watcher_rule_problem(watch->watcher, i));
	}
}

static void captured(void *context, const struct watcher_capture *capture)
{
	struct target_watch *const watch = context;
	struct watch_report *const report = &watch->report;
	char line[LINE_BYTES];

	pthread_mutex_lock(&watch->mutex);
	report->captures++;
	report->captured_ms = clock_realtime_ms();
	report->bytes = capture->bytes;
	snprintf(report->reason, sizeof report->reason, "%s", capture->reason);
	snprintf(report->path, sizeof report->path, "%s", capture->path);
	report_rules(watch);
	pthread_mutex_unlock(&watch->mutex);
	snprintf(line, sizeof line, "%s: captured into %s", capture->reason, capture->path);
	log_line(watch, line, "");
}

static void failed(void *context, bool is_capture, const struct error *err)
{
	struct target_watch *const watch = context;

	pthread_mutex_lock(&watch->mutex);
	watch->report.failures += is_capture;
	watch->report.failed_ms = clock_realtime_ms();
	watch->report.failure = *err;
	pthread_mutex_unlock(&watch->mutex);
	log_line(watch, err->message, err->hint);
}

static void note(void *context, const char *line)
{
	log_line(context, line, "");
}

static void set_state(
	struct target_watch *watch, enum watch_state state, pid_t pid, const struct error *problem)
{
	pthread_mutex_lock(&watch->mutex);
	watch->report.state = state;
	watch->report.pid = pid;
	watch->report.problem = problem == NULL ? (struct error){ 0 } : *problem;
	report_rules(watch);
	pthread_mutex_unlock(&watch->mutex);
}

bool watch_report_is_about(const struct watch_report *report, const char *name)
{
	char number[16];

	snprintf(number, sizeof number, "%d", (int)report->pid);
	return strcmp(report->name, name) == 0 || (report->pid != 0 && strcmp(number, name) == 0);
}

/* A folder for each of a pattern's targets, so that none takes the room of another. */
void watch_report_folder(const struct watch_report *report, char path[4096])
{
	const struct watch_section *const section = &report->section;
	const char *const keep = section->settings.keep;
	const bool has_own = keep[0] != '\0' && watch_section_is_pattern(section);

	snprintf(path, 4096, "%s%s%s", keep, has_own ? "/" : "", has_own ? report->name : "");
}

static void drop_folder(struct target_watch *watch)
{
	watcher_use_store(watch->watcher, NULL);
	watch_folders_give(watch->folders, watch->store);
	watch->store = NULL;
}

/* Opens the section's folder in place of the former one. */
static bool open_folder(struct target_watch *watch, struct error *err)
{
	const struct watch_section *const section = &watch->report.section;
	const struct watch_settings *const settings = &section->settings;
	struct store *store = NULL;
	char path[4096];

	if (settings->keep[0] == '\0') {
		drop_folder(watch);
		return true;
	}
	const bool is_pattern = watch_section_is_pattern(section);
	if (is_pattern && !file_make_folder(settings->keep, 0700, err))
		return false;
	watch_report_folder(&watch->report, path);
	if (!watch_folders_take(watch->folders, path, &settings->limits, &store, err))
		return false;
	watcher_use_store(watch->watcher, store);
	watch_folders_give(watch->folders, watch->store);
	watch->store = store;
	return true;
}

static void drop_backend(struct target_watch *watch)
{
	backend_drop(watch->backend);
	watch->backend = NULL;
}

static void attach(struct target_watch *watch)
{
	struct error err = { 0 };
	char line[LINE_BYTES];

	if (clock_boottime_ms() < watch->retry_ms)
		return;
	if (open_folder(watch, &err) &&
		watcher_attach(watch->watcher, &watch->backend->target, &err)) {
		watch->logged = (struct error){ 0 };
		set_state(watch, WATCH_WATCHING, watch->backend->pid, NULL);
		snprintf(line, sizeof line, "watching %s", watch->backend->target.label);
		log_line(watch, line, "");
		return;
	}
	if (err.kind == ERROR_NOT_FOUND) {
		drop_backend(watch);
		set_state(watch, WATCH_WAITING, 0, NULL);
		return;
	}
	watch->retry_ms = clock_boottime_ms() + RETRY_MS;
	set_state(watch, WATCH_REFUSED, watch->backend->pid, &err);
	if (strcmp(watch->logged.message, err.message) != 0)
		log_line(watch, err.message, err.hint);
	watch->logged = err;
}

static void change(struct target_watch *watch, const struct watch_section *section)
{
	struct error err;

	watcher_change(watch->watcher, &section->settings);
	pthread_mutex_lock(&watch->mutex);
	watch->report.section = *section;
	report_rules(watch);
	pthread_mutex_unlock(&watch->mutex);
	/*
	 * Files that jemalloc wrote when the target ended are still collected. An error is reported
	 * when the target is back and the folder fails again.
	 */
	if (watch->backend == NULL && !open_folder(watch, &err))
		drop_folder(watch);
	watch->retry_ms = 0;
}

/* False when it is to end. */
static bool drain_requests(struct target_watch *watch)
{
	uint64_t count;

	/* Empty after a timeout. */
	(void)!read(watch->wake_fd, &count, sizeof count);
	pthread_mutex_lock(&watch->mutex);
	const bool is_stopping = watch->is_stopping;
	struct backend *const sent = TAKE(watch->sent);
	CLEANUP(free_cleanup) struct watch_section *section = TAKE(watch->changed);
	watch->signalled = watch->is_signalled;
	watch->is_signalled = false;
	pthread_mutex_unlock(&watch->mutex);
	if (section != NULL)
		change(watch, section);
	if (sent != NULL) {
		drop_backend(watch);
		watch->backend = sent;
		watch->retry_ms = 0;
	}
	/* The watcher is still attached to the former target. */
	if (sent != NULL && watcher_is_attached(watch->watcher))
		watcher_detach(watch->watcher);
	return !is_stopping;
}

static void poll_once(struct target_watch *watch)
{
	char line[LINE_BYTES];
	struct error err;

	if (watch->backend != NULL && !watcher_is_attached(watch->watcher))
		attach(watch);
	if (!watcher_poll(watch->watcher, watch->signalled, &err)) {
		drop_backend(watch);
		set_state(watch, WATCH_WAITING, 0, NULL);
		snprintf(line, sizeof line, "%s; waiting for it to come back", err.message);
		log_line(watch, line, "");
	}
	pthread_mutex_lock(&watch->mutex);
	report_rules(watch);
	pthread_mutex_unlock(&watch->mutex);
}

static void *work(void *context)
{
	struct target_watch *const watch = context;

	while (drain_requests(watch)) {
		poll_once(watch);
		watcher_wait(watch->watcher, watch->wake_fd);
	}
	pthread_mutex_lock(&watch->mutex);
	watch->has_stopped = true;
	pthread_mutex_unlock(&watch->mutex);
	return NULL;
}

static void target_watch_free(struct target_watch *watch)
{
	watcher_free(watch->watcher);
	backend_drop(watch->backend);
	backend_drop(watch->sent);
	free(watch->changed);
	watch_folders_give(watch->folders, watch->store);
	if (watch->wake_fd >= 0)
		close(watch->wake_fd);
	pthread_mutex_destroy(&watch->mutex);
	free(watch);
}

static bool start_work(struct target_watch *watch, struct error *err)
{
	watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (watch->wake_fd < 0)
		return error_system(err, errno, "starting a watch");
	return thread_start(&watch->thread, STACK_BYTES, work, watch, "a watch", err);
}

bool target_watch_start(struct gateway *gateway, struct watch_folders *folders,
	const struct watch_section *section, const char *name, struct target_watch **ret,
	struct error *err)
{
	struct target_watch *const watch = xcalloc(1, sizeof *watch);
	const struct watcher_host host = {
		.context = watch, .keep = keep, .captured = captured, .failed = failed, .note = note
	};

	watch->gateway = gateway;
	watch->folders = folders;
	watch->report.section = *section;
	snprintf(watch->report.name, sizeof watch->report.name, "%s", name);
	pthread_mutex_init(&watch->mutex, NULL);
	watch->watcher = watcher_new(&section->settings, &host);
	report_rules(watch);
	if (!start_work(watch, err)) {
		target_watch_free(watch);
		return false;
	}
	*ret = watch;
	return true;
}

static void wake(const struct target_watch *watch)
{
	const uint64_t one = 1;

	(void)!write(watch->wake_fd, &one, sizeof one);
}

void target_watch_assign(struct target_watch *watch, struct backend *backend)
{
	watch->generation = backend->generation;
	pthread_mutex_lock(&watch->mutex);
	backend_drop(watch->sent);
	watch->sent = backend_share(backend);
	pthread_mutex_unlock(&watch->mutex);
	wake(watch);
}

void target_watch_change(struct target_watch *watch, const struct watch_section *section)
{
	struct watch_section *const own = xmalloc(sizeof *own);

	*own = *section;
	pthread_mutex_lock(&watch->mutex);
	free(watch->changed);
	watch->changed = own;
	pthread_mutex_unlock(&watch->mutex);
	wake(watch);
}

void target_watch_signal(struct target_watch *watch)
{
	pthread_mutex_lock(&watch->mutex);
	watch->is_signalled = true;
	pthread_mutex_unlock(&watch->mutex);
	wake(watch);
}

void target_watch_stop(struct target_watch *watch)
{
	pthread_mutex_lock(&watch->mutex);
	watch->is_stopping = true;
	pthread_mutex_unlock(&watch->mutex);
	wake(watch);
}

bool target_watch_has_stopped(struct target_watch *watch)
{
	pthread_mutex_lock(&watch->mutex);
	const bool has_stopped = watch->has_stopped;
	pthread_mutex_unlock(&watch->mutex);
	return has_stopped;
}

void target_watch_join(struct target_watch *watch)
{
	pthread_join(watch->thread, NULL);
	target_watch_free(watch);
}

void target_watch_report(struct target_watch *watch, struct watch_report *report)
{
	pthread_mutex_lock(&watch->mutex);
	*report = watch->report;
	pthread_mutex_unlock(&watch->mutex);
}

const char *target_watch_name(const struct target_watch *watch)
{
	/* Written once, before the thread began. */
	return watch->report.name;
}

uint64_t target_watch_generation(const struct target_watch *watch)
{
	return watch->generation;
}

bool target_watch_is_idle(struct target_watch *watch)
{
	pthread_mutex_lock(&watch->mutex);
	const bool is_idle = watch->report.state == WATCH_WAITING && watch->sent == NULL;
	pthread_mutex_unlock(&watch->mutex);
	return is_idle;
}
