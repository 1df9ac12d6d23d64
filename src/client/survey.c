/* SPDX-License-Identifier: Apache-2.0 */
#include "client/survey.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/discovery.h"
#include "client/process.h"
#include "client/program.h"
#include "client/stream.h"
#include "client/wake.h"
#include "client/target_agent.h"

/* In other folders a name may lead anywhere. */
static int open_private_folder(const char *path, size_t size)
{
	char folder[4096];
	struct stat status;

	if ((size_t)snprintf(folder, sizeof folder, "%.*s", (int)size, path) >= sizeof folder)
		return -1;
	const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) == 0 && (status.st_mode & 077) == 0 &&
		(status.st_uid == geteuid() || geteuid() == 0))
		return fd;
	close(fd);
	return -1;
}

/* An agent's socket listens before it gets its name, so what refuses will never answer. */
static bool is_abandoned(const char *path)
{
	CLEANUP(stream_close) struct stream stream = { .fd = -1 };
	struct error err;

	stream_init(&stream, 0, 0);
	return !stream_connect_unix(&stream, path, &err) && err.errnum == ECONNREFUSED;
}

/* Between bind() and listen() a living agent's refuses too, under a name that begins with a dot. */
static bool may_be_unfinished(const char *name, const struct stat *status)
{
	enum { UNFINISHED_S = 10 };

	return name[0] == '.' &&
	       clock_realtime_ms() / 1000 - status->st_ctim.tv_sec <= UNFINISHED_S;
}

/*
 * Removes the name of a socket where nothing listens, in a folder that only its owner can
 * enter, and that is owned by this user (for root: any user). False when it is still there.
 */
static bool remove_stale_socket(const char *path)
{
	const char *const slash = strrchr(path, '/');
	struct stat before, now;

	if (slash == NULL)
		return false;
	CLEANUP(fd_cleanup) const int folder = open_private_folder(path, (size_t)(slash - path));
	const char *const name = slash + 1;
	if (folder < 0)
		return false;
	if (fstatat(folder, name, &before, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT;
	/* Another process may have got the number, and the name, in the meantime. */
	return S_ISSOCK(before.st_mode) && !may_be_unfinished(name, &before) &&
	       is_abandoned(path) && fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
	       now.st_ino == before.st_ino && unlinkat(folder, name, 0) == 0;
}

/* An agent older than the second has its socket, or cannot have one. */
enum { PASSING_MS = 200, YOUNG_MS = 1200 };

/* Each waits two seconds at most. */
enum { SURVEY_THREADS = 32 };

void survey_deinit(struct survey *survey)
{
	for (size_t i = 0; i < survey->count; i++)
		json_decref(survey->entries[i].status);
	free(survey->entries);
	*survey = (struct survey){ 0 };
}

/* Programs searched for a jemalloc of their own: many processes share one. */
struct program_cache {
	struct {
		dev_t device;
		ino_t inode;
		bool has_jemalloc;
	} * items;
	size_t count, capacity;
};

static bool program_has_jemalloc(pid_t pid, struct program_cache *cache)
{
	char path[32], name[MALLCTL_NAME_BYTES];
	struct stat status;

	snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) != 0)
		return false;
	for (size_t i = 0; i < cache->count; i++) {
		if (cache->items[i].device == status.st_dev &&
			cache->items[i].inode == status.st_ino)
			return cache->items[i].has_jemalloc;
	}
	cache->items =
		xgrow(cache->items, &cache->capacity, cache->count + 1, sizeof *cache->items);
	cache->items[cache->count].device = status.st_dev;
	cache->items[cache->count].inode = status.st_ino;
	cache->items[cache->count].has_jemalloc = program_find_mallctl(fd, name);
	return cache->items[cache->count++].has_jemalloc;
}

static struct survey_entry *add(struct survey *survey, enum survey_kind kind)
{
	struct survey_entry *const entry =
		XAPPEND(survey->entries, survey->count, survey->capacity);

	memset(entry, 0, sizeof *entry);
	entry->kind = kind;
	return entry;
}

static void add_reachable(struct survey *survey, const struct target *target)
{
	add(survey, SURVEY_REACHABLE)->target = *target;
}

/* What a few threads share out among themselves. */
struct work {
	void (*one)(void *items, size_t at);
	void *items;
	size_t count;
	atomic_size_t next;
};

static void *do_work(void *context)
{
	struct work *const work = context;
	size_t at;

	while ((at = atomic_fetch_add(&work->next, 1)) < work->count)
		work->one(work->items, at);
	return NULL;
}

/* At the same time, as far as there are threads to be had: many may be slow. */
static void do_all(void (*one)(void *items, size_t at), void *items, size_t count)
{
	struct work work = { .one = one, .items = items, .count = count };
	pthread_t threads[SURVEY_THREADS];
	size_t started = 0;

	while (started < SURVEY_THREADS && started + 1 < count &&
		pthread_create(&threads[started], NULL, do_work, &work) == 0)
		started++;
	do_work(&work);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

static void ask_for_status(void *items, size_t at)
{
	struct survey_entry *const entry = &((struct survey_entry *)items)[at];

	if (entry->kind != SURVEY_REACHABLE ||
		agent_call_json_within(&entry->target, "GET", "/v1/status", AGENT_SURVEY_MS,
			&entry->status, &entry->problem))
		return;
	entry->kind = SURVEY_SILENT;
	if (entry->problem.kind == ERROR_TIMEOUT &&
		(entry->problem.errnum == ETIMEDOUT || entry->problem.hint[0] == '\0'))
		error_hint(&entry->problem,
			"it may be busy with a profile; heapctl status waits longer");
}

/* The result of the search for the agent of a process. */
struct search {
	pid_t pid;
	struct listening_tables *tables; /* of the survey */
	bool is_there, has_agent;
	bool is_asleep, can_wake;
	struct process process;
	bool has_modules; /* of one without an agent: they may be read */
	struct process_modules modules;
	struct target target;
	struct error why;
	struct error sleeper_problem; /* why it cannot be woken */
};

/* Its agent is on demand. A young one may just be making its socket. */
static bool has_sleeping_agent(const struct process *process, const struct process_modules *modules)
{
	const enum wake_state state = wake_state_of(process, modules);

	return state == WAKE_ASLEEP ||
	       (state == WAKE_AWAKE && process_age_ms(process->pid) < YOUNG_MS);
}

static void search_agent(void *items, size_t at)
{
	struct search *const search = &((struct search *)items)[at];
	struct error ignored;

	search->is_there = process_read(search->pid, &search->process, &search->why);
	if (!search->is_there)
		return;
	search->has_agent =
		target_find(search->tables, &search->process, &search->target, &search->why);
	if (search->has_agent)
		return;
	search->has_modules = process_read_modules(search->pid, &search->modules, &ignored);
	search->is_asleep = search->has_modules && search->why.kind == ERROR_NOT_FOUND &&
			    has_sleeping_agent(&search->process, &search->modules);
	search->can_wake = search->is_asleep &&
			   target_check_sleeper(&search->process, &search->sleeper_problem);
}

/* A child that was just forked, and may be about to exec or to exit. */
static bool is_just_forked(const struct process *process)
{
	struct process parent;
	struct error ignored;

	return process_age_ms(process->pid) < PASSING_MS &&
	       process_read(process->parent, &parent, &ignored) &&
	       strcmp(parent.exe, process->exe) == 0;
}

static void add_asleep(struct survey *survey, const struct search *search)
{
	if (is_just_forked(&search->process))
		return;
	struct survey_entry *const entry =
		add(survey, search->can_wake ? SURVEY_ASLEEP : SURVEY_SILENT);
	target_of_sleeper(&search->process, &entry->target);
	if (!search->can_wake)
		entry->problem = search->sleeper_problem;
	snprintf(entry->jemalloc, sizeof entry->jemalloc, "%s", search->modules.jemalloc);
}

/* Not the kernel's refusal: the socket is that of another process, or user, of the same number. */
static bool is_of_another(const struct error *why)
{
	return why->kind == ERROR_DENIED && why->errnum == 0;
}

/* A process without an agent that answers: of interest when it has jemalloc. */
static void add_unreachable(
	struct survey *survey, const struct search *search, struct program_cache *cache)
{
	const struct process *const process = &search->process;
	const struct process_modules *const modules = &search->modules;
	const struct error *const why = &search->why;

	if (!search->has_modules) {
		if (why->kind != ERROR_NOT_FOUND && !is_of_another(why) &&
			strstr(why->message, ".sock") != NULL) {
			struct survey_entry *const entry = add(survey, SURVEY_SILENT);
			entry->target.process = *process;
			entry->problem = *why;
		}
		return;
	}
	const bool is_inside =
		modules->jemalloc[0] == '\0' && program_has_jemalloc(process->pid, cache);
	const bool is_silent = modules->agent[0] != '\0' || modules->has_agent_mark ||
			       (why->kind != ERROR_NOT_FOUND && !is_of_another(why));
	if (!is_silent && modules->jemalloc[0] == '\0' && !is_inside)
		return;
	struct survey_entry *const entry = add(survey, is_silent ? SURVEY_SILENT : SURVEY_NO_AGENT);
	entry->target.process = *process;
	entry->problem = *why;
	entry->agent_hint = process_agent_hint(modules);
	snprintf(entry->jemalloc, sizeof entry->jemalloc, "%s",
		is_inside ? "in the program" : modules->jemalloc);
}

static void add_processes(
	struct survey *survey, struct listening_tables *tables, const pid_t *pids, size_t count)
{
	CLEANUP(free_cleanup) struct search *searches = xcalloc(count, sizeof *searches);
	struct program_cache cache = { 0 };

	for (size_t i = 0; i < count; i++)
		searches[i] = (struct search){ .pid = pids[i], .tables = tables };
	do_all(search_agent, searches, count);
	for (size_t i = 0; i < count; i++) {
		const struct search *const search = &searches[i];
		if (search->is_there && search->has_agent)
			add_reachable(survey, &search->target);
		else if (search->is_asleep)
			add_asleep(survey, search);
		else if (search->is_there)
			add_unreachable(survey, search, &cache);
	}
	free(cache.items);
}

static bool is_known(const struct survey *survey, const char *path)
{
	for (size_t i = 0; i < survey->count; i++) {
		if (strcmp(survey->entries[i].target.socket_path, path) == 0)
			return true;
	}
	return false;
}

static bool has_pid(const struct survey *survey, pid_t pid)
{
	for (size_t i = 0; pid != 0 && i < survey->count; i++) {
		if (survey->entries[i].target.process.pid == pid)
			return true;
	}
	return false;
}

/* Sockets that no process of /proc accounts for: another pid namespace, or left behind. */
static void add_sockets(struct survey *survey, struct listening_tables *tables)
{
	struct string_pool paths;

	string_pool_init(&paths);
	discovery_sockets(tables, &paths);
	for (size_t i = 0; i < paths.count; i++) {
		struct target target;
		struct error err;

		if (is_known(survey, paths.strings[i]))
			continue;
		if (target_of_socket(paths.strings[i], &target, &err)) {
			if (!has_pid(survey, target.process.pid))
				add_reachable(survey, &target);
		} else if (err.kind == ERROR_NOT_FOUND && !remove_stale_socket(paths.strings[i]) &&
			   strrchr(paths.strings[i], '/')[1] != '.') {
			struct survey_entry *const entry = add(survey, SURVEY_STALE);
			snprintf(entry->target.socket_path, sizeof entry->target.socket_path, "%s",
				paths.strings[i]);
		}
	}
	string_pool_deinit(&paths);
}

bool survey_make(bool with_status, struct survey *survey, struct error *err)
{
	CLEANUP(free_cleanup) pid_t *pids = NULL;
	CLEANUP(listening_tables_cleanup)
	struct listening_tables *tables = listening_tables_create();
	size_t count = 0;

	*survey = (struct survey){ 0 };
	if (!process_list(&pids, &count, err))
		return false;
	add_processes(survey, tables, pids, count);
	add_sockets(survey, tables);
	if (with_status)
		do_all(ask_for_status, survey->entries, survey->count);
	return true;
}
