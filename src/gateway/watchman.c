/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/watchman.h"

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
#include "gateway/thread.h"

enum { STACK_BYTES = 1024 * 1024, LOOK_MS = 2000, LINE_BYTES = 1000 };

/* A post and what it is there for. */
struct posting {
	struct watch_post *post;
	char pattern[WATCH_PATTERN_BYTES]; /* with the number, the section's identity */
	unsigned number;
	bool is_dismissed;
};

struct watchman {
	struct gateway *gateway;
	struct watch_folders folders;
	pthread_t thread;
	bool is_started;
	int wake_fd;
	struct watch_file file; /* the thread's alone, once it runs */
	bool said_full;

	pthread_mutex_t mutex; /* of what follows */
	struct watchman_state state;
	struct posting postings[WATCHMAN_POSTS_MAX]; /* changed by the thread alone */
	size_t count;
	bool shall_reload, is_signalled;
};

static void say(const struct watchman *watchman, const char *text, const char *hint)
{
	char line[LINE_BYTES];

	if (watchman->gateway->log == NULL)
		return;
	snprintf(line, sizeof line, "watch: %s%s%s%s", text, hint[0] == '\0' ? "" : " (", hint,
		hint[0] == '\0' ? "" : ")");
	watchman->gateway->log(line);
}

static bool read_file(struct watchman *watchman, struct watch_file *file, struct error *err)
{
	return watch_file_read(watchman->state.path, watchman->gateway->store != NULL, file, err);
}

/* Root's gateway sees the processes of all users, and each may have any name. */
static void warn_of_strangers(const struct watchman *watchman)
{
	char line[LINE_BYTES];

	for (size_t i = 0; geteuid() == 0 && i < watchman->file.count; i++) {
		const struct watch_section *const section = &watchman->file.sections[i];
		if (section->user != USER_ANY || section->settings.then[0] == '\0')
			continue;
		snprintf(line, sizeof line, "[%s] in line %u runs a command as root for %s",
			section->pattern, section->line,
			watch_section_is_pattern(section)
				? "any user's process of such a name"
				: "the user whose process has the name first");
		say(watchman, line, "add user = NAME");
	}
}

static void use_file(struct watchman *watchman, struct watch_file *file)
{
	char line[LINE_BYTES];

	watch_file_deinit(&watchman->file);
	watchman->file = *file;
	pthread_mutex_lock(&watchman->mutex);
	watchman->state.read_ms = clock_realtime_ms();
	watchman->state.problem = (struct error){ 0 };
	pthread_mutex_unlock(&watchman->mutex);
	snprintf(line, sizeof line, "%s has %zu section%s", watchman->state.path, file->count,
		file->count == 1 ? "" : "s");
	say(watchman, line, "");
	warn_of_strangers(watchman);
}

bool watchman_open(
	struct gateway *gateway, const char *path, struct watchman **ret, struct error *err)
{
	struct watchman *const watchman = xcalloc(1, sizeof *watchman);
	struct watch_file file = { 0 };

	watchman->gateway = gateway;
	snprintf(watchman->state.path, sizeof watchman->state.path, "%s", path);
	pthread_mutex_init(&watchman->mutex, NULL);
	watch_folders_init(&watchman->folders);
	watchman->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const bool ok = (watchman->wake_fd >= 0 || error_system(err, errno, "eventfd")) &&
			read_file(watchman, &file, err);
	if (!ok) {
		watchman_close(watchman);
		return false;
	}
	use_file(watchman, &file);
	*ret = watchman;
	return true;
}

static const struct watch_section *find_section(
	const struct watch_file *file, const struct posting *posting)
{
	for (size_t i = 0; i < file->count; i++) {
		const struct watch_section *const section = &file->sections[i];
		if (section->number == posting->number &&
			strcmp(section->pattern, posting->pattern) == 0)
			return section;
	}
	return NULL;
}

static void dismiss(struct watchman *watchman, struct posting *posting)
{
	watch_post_dismiss(posting->post);
	pthread_mutex_lock(&watchman->mutex);
	posting->is_dismissed = true;
	pthread_mutex_unlock(&watchman->mutex);
}

static void reload(struct watchman *watchman)
{
	struct watch_file file = { 0 };
	struct error err = { 0 };

	if (!read_file(watchman, &file, &err)) {
		pthread_mutex_lock(&watchman->mutex);
		watchman->state.problem = err;
		pthread_mutex_unlock(&watchman->mutex);
		error_prefix(&err, "the rules stay as they were");
		say(watchman, err.message, err.hint);
		return;
	}
	use_file(watchman, &file);
	for (size_t i = 0; i < watchman->count; i++) {
		struct posting *const posting = &watchman->postings[i];
		const struct watch_section *const section = find_section(&watchman->file, posting);
		if (posting->is_dismissed)
			continue;
		if (section == NULL)
			dismiss(watchman, posting);
		else
			watch_post_change(posting->post, section);
	}
}

/*
 * A section that names no user is for those whose processes have their names to themselves: another
 * user's process that is called as theirs is no target of it.
 */
static bool is_meant(struct backend_set *backends, const struct watch_section *section,
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

static bool is_listed(const struct backend_list *list, uint64_t incarnation)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->incarnation == incarnation)
			return true;
	}
	return false;
}

/*
 * The post that is at this target, or one of its name whose target has gone: that is where a
 * server that was restarted is found again.
 */
static struct posting *find_posting(struct watchman *watchman, const struct watch_section *section,
	const struct backend *backend, const struct backend_list *list)
{
	struct posting *found = NULL;

	for (size_t i = 0; i < watchman->count; i++) {
		struct posting *const posting = &watchman->postings[i];
		if (posting->is_dismissed || posting->number != section->number ||
			strcmp(posting->pattern, section->pattern) != 0)
			continue;
		const uint64_t incarnation = watch_post_incarnation(posting->post);
		if (incarnation == backend->incarnation)
			return posting;
		if (found == NULL && strcmp(watch_post_name(posting->post), backend->name) == 0 &&
			!is_listed(list, incarnation))
			found = posting;
	}
	return found;
}

static bool post_new(struct watchman *watchman, const struct watch_section *section,
	struct backend *backend, struct error *err)
{
	struct posting posting = { .number = section->number };

	if (watchman->count == WATCHMAN_POSTS_MAX)
		return error_set(err, ERROR_STATE, "more than %d targets", WATCHMAN_POSTS_MAX);
	strcpy(posting.pattern, section->pattern);
	if (!watch_post_start(watchman->gateway, &watchman->folders, section, backend->name,
		    &posting.post, err))
		return false;
	watch_post_send(posting.post, backend);
	pthread_mutex_lock(&watchman->mutex);
	watchman->postings[watchman->count++] = posting;
	pthread_mutex_unlock(&watchman->mutex);
	return true;
}

static void cover(struct watchman *watchman, const struct watch_section *section,
	struct backend *backend, const struct backend_list *list)
{
	struct posting *const posting = find_posting(watchman, section, backend, list);
	struct error err;

	if (posting != NULL) {
		if (watch_post_incarnation(posting->post) != backend->incarnation ||
			watch_post_is_vacant(posting->post))
			watch_post_send(posting->post, backend);
		return;
	}
	if (post_new(watchman, section, backend, &err)) {
		watchman->said_full = false;
		return;
	}
	if (!watchman->said_full)
		say(watchman, err.message, err.hint);
	watchman->said_full = true;
}

/* Those that were dismissed and have gone; of those whose target has, when places are short. */
static void reap(struct watchman *watchman)
{
	const bool is_full = watchman->count == WATCHMAN_POSTS_MAX;

	for (size_t i = 0; i < watchman->count;) {
		struct posting *const posting = &watchman->postings[i];
		if (is_full && !posting->is_dismissed && watch_post_is_vacant(posting->post))
			dismiss(watchman, posting);
		if (!posting->is_dismissed || !watch_post_has_left(posting->post)) {
			i++;
			continue;
		}
		struct watch_post *const post = posting->post;
		pthread_mutex_lock(&watchman->mutex);
		*posting = watchman->postings[--watchman->count];
		pthread_mutex_unlock(&watchman->mutex);
		watch_post_join(post);
	}
}

static void make_rounds(struct watchman *watchman)
{
	CLEANUP(backend_list_cleanup) struct backend_list list = { 0 };

	backend_set_list(&watchman->gateway->backends, &list);
	for (size_t s = 0; s < watchman->file.count; s++) {
		for (size_t i = 0; i < list.count; i++) {
			if (is_meant(&watchman->gateway->backends, &watchman->file.sections[s],
				    list.items[i]))
				cover(watchman, &watchman->file.sections[s], list.items[i], &list);
		}
	}
}

static void take_orders(struct watchman *watchman)
{
	uint64_t count;

	(void)!read(watchman->wake_fd, &count, sizeof count);
	pthread_mutex_lock(&watchman->mutex);
	const bool shall_reload = watchman->shall_reload, is_signalled = watchman->is_signalled;
	watchman->shall_reload = watchman->is_signalled = false;
	pthread_mutex_unlock(&watchman->mutex);
	if (shall_reload)
		reload(watchman);
	for (size_t i = 0; i < watchman->count && is_signalled; i++)
		watch_post_signal(watchman->postings[i].post);
}

static void *work(void *context)
{
	struct watchman *const watchman = context;
	struct pollfd pollers[] = {
		{ .fd = watchman->gateway->stop_fd, .events = POLLIN },
		{ .fd = watchman->wake_fd, .events = POLLIN },
	};

	do {
		take_orders(watchman);
		make_rounds(watchman);
		reap(watchman);
		pollers[0].revents = 0;
	} while (poll(pollers, 2, LOOK_MS) <= 0 || pollers[0].revents == 0);
	return NULL;
}

bool watchman_start(struct watchman *watchman, struct error *err)
{
	watchman->is_started =
		thread_start(&watchman->thread, STACK_BYTES, work, watchman, "the watches", err);
	return watchman->is_started;
}

void watchman_close(struct watchman *watchman)
{
	if (watchman == NULL)
		return;
	if (watchman->is_started)
		pthread_join(watchman->thread, NULL);
	for (size_t i = 0; i < watchman->count; i++)
		watch_post_dismiss(watchman->postings[i].post);
	for (size_t i = 0; i < watchman->count; i++)
		watch_post_join(watchman->postings[i].post);
	watch_folders_deinit(&watchman->folders);
	watch_file_deinit(&watchman->file);
	if (watchman->wake_fd >= 0)
		close(watchman->wake_fd);
	pthread_mutex_destroy(&watchman->mutex);
	free(watchman);
}

static void order(struct watchman *watchman, bool *what)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&watchman->mutex);
	*what = true;
	pthread_mutex_unlock(&watchman->mutex);
	(void)!write(watchman->wake_fd, &one, sizeof one);
}

void watchman_reload(struct watchman *watchman)
{
	order(watchman, &watchman->shall_reload);
}

void watchman_signal(struct watchman *watchman)
{
	order(watchman, &watchman->is_signalled);
}

size_t watchman_report(
	struct watchman *watchman, struct watchman_state *state, struct watch_report **reports)
{
	size_t count = 0;

	pthread_mutex_lock(&watchman->mutex);
	*state = watchman->state;
	*reports = xcalloc(watchman->count + 1, sizeof **reports);
	for (size_t i = 0; i < watchman->count; i++) {
		if (!watchman->postings[i].is_dismissed)
			watch_post_report(watchman->postings[i].post, &(*reports)[count++]);
	}
	pthread_mutex_unlock(&watchman->mutex);
	return count;
}
