/* SPDX-License-Identifier: Apache-2.0 */
#include "client/survey.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/discovery.h"
#include "client/program.h"
#include "client/stale_socket.h"

void survey_deinit(struct survey *survey)
{
	for (size_t i = 0; i < survey->count; i++)
		json_decref(survey->entries[i].status);
	free(survey->entries);
	*survey = (struct survey){ 0 };
}

/* Programs looked into for a jemalloc of their own: many processes share one. */
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
	char path[32], name[64];
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
	survey->entries = xgrow(
		survey->entries, &survey->capacity, survey->count + 1, sizeof *survey->entries);
	struct survey_entry *const entry = &survey->entries[survey->count++];

	memset(entry, 0, sizeof *entry);
	entry->kind = kind;
	return entry;
}

static void add_reachable(struct survey *survey, const struct target *target, bool with_status)
{
	struct survey_entry *const entry = add(survey, SURVEY_REACHABLE);

	entry->target = *target;
	if (with_status &&
		!agent_call_json(target, "GET", "/v1/status", &entry->status, &entry->problem))
		entry->kind = SURVEY_SILENT;
}

/* A process without an agent that answers: of interest when it has jemalloc. */
static void add_unreachable(struct survey *survey, const struct process *process,
	const struct error *why, struct program_cache *cache)
{
	struct process_modules modules;
	struct error err;

	if (!process_read_modules(process->pid, &modules, &err)) {
		if (why->kind != ERROR_NOT_FOUND && strstr(why->message, ".sock") != NULL) {
			struct survey_entry *const entry = add(survey, SURVEY_SILENT);
			entry->target.process = *process;
			entry->problem = *why;
		}
		return;
	}
	const bool is_inside =
		modules.jemalloc[0] == '\0' && program_has_jemalloc(process->pid, cache);
	const bool is_silent = modules.agent[0] != '\0' || why->kind != ERROR_NOT_FOUND;
	if (!is_silent && modules.jemalloc[0] == '\0' && !is_inside)
		return;
	struct survey_entry *const entry = add(survey, is_silent ? SURVEY_SILENT : SURVEY_NO_AGENT);
	entry->target.process = *process;
	entry->problem = *why;
	snprintf(entry->jemalloc, sizeof entry->jemalloc, "%s",
		is_inside ? "in the program" : modules.jemalloc);
}

static void add_processes(struct survey *survey, const pid_t *pids, size_t count, bool with_status)
{
	struct program_cache cache = { 0 };

	for (size_t i = 0; i < count; i++) {
		struct target target;
		struct process process;
		struct error err;

		if (!process_read(pids[i], &process, &err))
			continue;
		if (target_of_process(pids[i], &target, &err))
			add_reachable(survey, &target, with_status);
		else
			add_unreachable(survey, &process, &err, &cache);
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
static void add_sockets(struct survey *survey, bool with_status)
{
	struct string_pool paths;

	string_pool_init(&paths);
	discovery_sockets(&paths);
	for (size_t i = 0; i < paths.count; i++) {
		struct target target;
		struct error err;

		if (is_known(survey, paths.strings[i]))
			continue;
		if (target_of_socket(paths.strings[i], &target, &err)) {
			if (!has_pid(survey, target.process.pid))
				add_reachable(survey, &target, with_status);
		} else if (err.kind == ERROR_NOT_FOUND && !stale_socket_remove(paths.strings[i]) &&
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
	size_t count = 0;

	*survey = (struct survey){ 0 };
	if (!process_list(&pids, &count, err))
		return false;
	add_processes(survey, pids, count, with_status);
	add_sockets(survey, with_status);
	return true;
}
