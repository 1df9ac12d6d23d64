/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/watch_manager.h"

#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "gateway/gateway.h"

enum { STACK_BYTES = 1024 * 1024, LOOK_MS = 2000, LINE_BYTES = 1000 };

/* A watch and its section. */
struct watch_entry {
	struct target_watch *watch;
	char pattern[WATCH_PATTERN_BYTES]; /* identifies the section, with the number */
	unsigned number;
	bool is_stopping;
};

struct watch_manager {
	struct gateway *gateway;
	struct watch_folders folders;
	pthread_t thread;
	bool is_started;
	int wake_fd;
	struct watch_file file; /* the thread's alone, once it runs */
	bool said_full;

	pthread_mutex_t mutex; /* of what follows */
	struct watch_manager_state state;
	struct watch_entry entries[WATCH_ENTRIES_MAX]; /* changed by the thread alone */
	size_t count;
	bool shall_reload, is_signalled;
};

static void log_line(const struct watch_manager *watch_manager, const char *text, const char *hint)
{
	char line[LINE_BYTES];

	if (watch_manager->gateway->log == NULL)
		return;
	snprintf(line, sizeof line, "watch: %s%s%s%s", text, hint[0] == '\0' ? "" : " (", hint,
		hint[0] == '\0' ? "" : ")");
	watch_manager->gateway->log(line);
}

static bool read_file(
	struct watch_manager *watch_manager, struct watch_file *file, struct error *err)
{
	return watch_file_read(
		watch_manager->state.path, watch_manager->gateway->store != NULL, file, err);
}

/* A gateway of root sees the processes of all users, with any names. */
static void warn_about_other_users(const struct watch_manager *watch_manager)
{
	char line[LINE_BYTES];

	for (size_t i = 0; geteuid() == 0 && i < watch_manager->file.count; i++) {
		const struct watch_section *const section = &watch_manager->file.sections[i];
		if (section->user != USER_ANY || section->settings.then[0] == '\0')
			continue;
		snprintf(line, sizeof line, "[%s] in line %u runs a command as root for %s",
			section->pattern, section->line,
			watch_section_is_pattern(section)
				? "any user's process of such a name"
				: "the user whose process has the name first");
		log_line(watch_manager, line, "add user = NAME");
	}
}

static void use_file(struct watch_manager *watch_manager, struct watch_file *file)
{
	char line[LINE_BYTES];

	watch_file_deinit(&watch_manager->file);
	watch_manager->file = *file;
	pthread_mutex_lock(&watch_manager->mutex);
	watch_manager->state.read_ms = clock_realtime_ms();
	watch_manager->state.problem = (struct error){ 0 };
	pthread_mutex_unlock(&watch_manager->mutex);
	snprintf(line, sizeof line, "%s has %zu section%s", watch_manager->state.path, file->count,
		file->count == 1 ? "" : "s");
	log_line(watch_manager, line, "");
	warn_about_other_users(watch_manager);
}

bool watch_manager_open(
	struct gateway *gateway, const char *path, struct watch_manager **ret, struct error *err)
{
	struct watch_manager *const watch_manager = xcalloc(1, sizeof *watch_manager);
	struct watch_file file = { 0 };

	watch_manager->gateway = gateway;
	snprintf(watch_manager->state.path, sizeof watch_manager->state.path, "%s", path);
	pthread_mutex_init(&watch_manager->mutex, NULL);
	watch_folders_init(&watch_manager->folders);
	watch_manager->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const bool ok = (watch_manager->wake_fd >= 0 || error_system(err, errno, "eventfd")) &&
			read_file(watch_manager, &file, err);
	if (!ok) {
		watch_manager_close(watch_manager);
		return false;
	}
	use_file(watch_manager, &file);
	*ret = watch_manager;
	return true;
}

static const struct watch_section *find_section(
	const struct watch_file *file, const struct watch_entry *entry)
{
	for (size_t i = 0; i < file->count; i++) {
		const struct watch_section *const section = &file->sections[i];
		if (section->number == entry->number &&
			strcmp(section->pattern, entry->pattern) == 0)
			return section;
	}
	return NULL;
}

static void stop(struct watch_manager *watch_manager, struct watch_entry *entry)
{
	target_watch_stop(entry->watch);
	pthread_mutex_lock(&watch_manager->mutex);
	entry->is_stopping = true;
	pthread_mutex_unlock(&watch_manager->mutex);
}

static void reload(struct watch_manager *watch_manager)
{
	struct watch_file file = { 0 };
	struct error err = { 0 };

	if (!read_file(watch_manager, &file, &err)) {
		pthread_mutex_lock(&watch_manager->mutex);
		watch_manager->state.problem = err;
		pthread_mutex_unlock(&watch_manager->mutex);
		error_prefix(&err, "the rules stay as they were");
		log_line(watch_manager, err.message, err.hint);
		return;
	}
	use_file(watch_manager, &file);
	for (size_t i = 0; i < watch_manager->count; i++) {
		struct watch_entry *const entry = &watch_manager->entries[i];
		const struct watch_section *const section =
			find_section(&watch_manager->file, entry);
		if (entry->is_stopping)
			continue;
		if (section == NULL)
			stop(watch_manager, entry);
		else
			target_watch_change(entry->watch, section);
	}
}

/*
 * A section without a user applies only to processes whose user has the name: another user's
 * process of that name is not its target.
 */
static bool section_applies(struct backend_set *backends, const struct watch_section *section,
	const struct backend *backend)
{
	const struct process *const process = &backend->target.process;
	const bool has_user = section->user != USER_ANY;

	if ((has_user && backend->owner != section->user) ||
		(section->program[0] != '\0' && strcmp(process->exe, section->program) != 0))
		return false;
	if (!watch_section_is_pattern(section))
		return backend_set_is_called(backends, backend, section->pattern) ||
		       (has_user && process_is_called(process, section->pattern));
	if (has_user && fnmatch(section->pattern, process->name, 0) == 0)
		return true;
	return fnmatch(section->pattern, backend->name, 0) == 0 &&
	       (strchr(backend->name, '@') == NULL || strchr(section->pattern, '@') != NULL);
}

static bool is_listed(const struct backend_list *list, uint64_t generation)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->generation == generation)
			return true;
	}
	return false;
}

/*
 * The watch of this target, or one of its name whose target has gone: that is how a restarted
 * server keeps its watch.
 */
static struct watch_entry *find_entry(struct watch_manager *watch_manager,
	const struct watch_section *section, const struct backend *backend,
	const struct backend_list *list)
{
	struct watch_entry *found = NULL;

	for (size_t i = 0; i < watch_manager->count; i++) {
		struct watch_entry *const entry = &watch_manager->entries[i];
		if (entry->is_stopping || entry->number != section->number ||
			strcmp(entry->pattern, section->pattern) != 0)
			continue;
		const uint64_t generation = target_watch_generation(entry->watch);
		if (generation == backend->generation)
			return entry;
		if (found == NULL && strcmp(target_watch_name(entry->watch), backend->name) == 0 &&
			!is_listed(list, generation))
			found = entry;
	}
	return found;
}

static bool add_entry(struct watch_manager *watch_manager, const struct watch_section *section,
	struct backend *backend, struct error *err)
{
	struct watch_entry entry = { .number = section->number };

	if (watch_manager->count == WATCH_ENTRIES_MAX)
		return error_set(err, ERROR_STATE, "more than %d targets", WATCH_ENTRIES_MAX);
	strcpy(entry.pattern, section->pattern);
	if (!target_watch_start(watch_manager->gateway, &watch_manager->folders, section,
		    backend->name, &entry.watch, err))
		return false;
	target_watch_assign(entry.watch, backend);
	pthread_mutex_lock(&watch_manager->mutex);
	watch_manager->entries[watch_manager->count++] = entry;
	pthread_mutex_unlock(&watch_manager->mutex);
	return true;
}

static void ensure_watch(struct watch_manager *watch_manager, const struct watch_section *section,
	struct backend *backend, const struct backend_list *list)
{
	struct watch_entry *const entry = find_entry(watch_manager, section, backend, list);
	struct error err;

	if (entry != NULL) {
		if (target_watch_generation(entry->watch) != backend->generation ||
			target_watch_is_idle(entry->watch))
			target_watch_assign(entry->watch, backend);
		return;
	}
	if (add_entry(watch_manager, section, backend, &err)) {
		watch_manager->said_full = false;
		return;
	}
	if (!watch_manager->said_full)
		log_line(watch_manager, err.message, err.hint);
	watch_manager->said_full = true;
}

/* Removes stopped watches; when all slots are taken, stops those without a target. */
static void remove_stopped(struct watch_manager *watch_manager)
{
	const bool is_full = watch_manager->count == WATCH_ENTRIES_MAX;

	for (size_t i = 0; i < watch_manager->count;) {
		struct watch_entry *const entry = &watch_manager->entries[i];
		if (is_full && !entry->is_stopping && target_watch_is_idle(entry->watch))
			stop(watch_manager, entry);
		if (!entry->is_stopping || !target_watch_has_stopped(entry->watch)) {
			i++;
			continue;
		}
		struct target_watch *const watch = entry->watch;
		pthread_mutex_lock(&watch_manager->mutex);
		*entry = watch_manager->entries[--watch_manager->count];
		pthread_mutex_unlock(&watch_manager->mutex);
		target_watch_join(watch);
	}
}

static void reconcile(struct watch_manager *watch_manager)
{
	CLEANUP(backend_list_deinit) struct backend_list list = { 0 };

	backend_set_list(&watch_manager->gateway->backends, &list);
	for (size_t s = 0; s < watch_manager->file.count; s++) {
		for (size_t i = 0; i < list.count; i++) {
			if (section_applies(&watch_manager->gateway->backends,
				    &watch_manager->file.sections[s], list.items[i]))
				ensure_watch(watch_manager, &watch_manager->file.sections[s],
					list.items[i], &list);
		}
	}
}

static void drain_requests(struct watch_manager *watch_manager)
{
	uint64_t count;

	(void)!read(watch_manager->wake_fd, &count, sizeof count);
	pthread_mutex_lock(&watch_manager->mutex);
	const bool shall_reload = watch_manager->shall_reload,
		   is_signalled = watch_manager->is_signalled;
	watch_manager->shall_reload = watch_manager->is_signalled = false;
	pthread_mutex_unlock(&watch_manager->mutex);
	if (shall_reload)
		reload(watch_manager);
	for (size_t i = 0; i < watch_manager->count && is_signalled; i++)
		target_watch_signal(watch_manager->entries[i].watch);
}

static void *work(void *context)
{
	struct watch_manager *const watch_manager = context;
	struct pollfd pollers[] = {
		{ .fd = watch_manager->gateway->stop_fd, .events = POLLIN },
		{ .fd = watch_manager->wake_fd, .events = POLLIN },
	};

	do {
		drain_requests(watch_manager);
		reconcile(watch_manager);
		remove_stopped(watch_manager);
		pollers[0].revents = 0;
	} while (poll(pollers, 2, LOOK_MS) <= 0 || pollers[0].revents == 0);
	return NULL;
}

bool watch_manager_start(struct watch_manager *watch_manager, struct error *err)
{
	watch_manager->is_started = thread_start(
		&watch_manager->thread, STACK_BYTES, work, watch_manager, "the watches", err);
	return watch_manager->is_started;
}

void watch_manager_close(struct watch_manager *watch_manager)
{
	if (watch_manager == NULL)
		return;
	if (watch_manager->is_started)
		pthread_join(watch_manager->thread, NULL);
	for (size_t i = 0; i < watch_manager->count; i++)
		target_watch_stop(watch_manager->entries[i].watch);
	for (size_t i = 0; i < watch_manager->count; i++)
		target_watch_join(watch_manager->entries[i].watch);
	watch_folders_deinit(&watch_manager->folders);
	watch_file_deinit(&watch_manager->file);
	if (watch_manager->wake_fd >= 0)
		close(watch_manager->wake_fd);
	pthread_mutex_destroy(&watch_manager->mutex);
	free(watch_manager);
}

static void request(struct watch_manager *watch_manager, bool *what)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&watch_manager->mutex);
	*what = true;
	pthread_mutex_unlock(&watch_manager->mutex);
	(void)!write(watch_manager->wake_fd, &one, sizeof one);
}

void watch_manager_reload(struct watch_manager *watch_manager)
{
	request(watch_manager, &watch_manager->shall_reload);
}

void watch_manager_signal(struct watch_manager *watch_manager)
{
	request(watch_manager, &watch_manager->is_signalled);
}

size_t watch_manager_report(struct watch_manager *watch_manager, struct watch_manager_state *state,
	struct watch_report **reports)
{
	size_t count = 0;

	pthread_mutex_lock(&watch_manager->mutex);
	*state = watch_manager->state;
	*reports = xcalloc(watch_manager->count + 1, sizeof **reports);
	for (size_t i = 0; i < watch_manager->count; i++) {
		if (!watch_manager->entries[i].is_stopping)
			target_watch_report(watch_manager->entries[i].watch, &(*reports)[count++]);
	}
	pthread_mutex_unlock(&watch_manager->mutex);
	return count;
}
