/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/backend_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "client/survey.h"

enum {
	MISS_REFRESH_MS = 300,
	/* Looking through a machine full of processes costs time: rest some times as long. */
	REFRESH_REST = 8,
	REFRESH_REST_MOST_MS = 10 * 1000,
};

void backend_set_init(struct backend_set *set, const char *const *wanted, size_t count)
{
	*set = (struct backend_set){ .wanted = wanted, .wanted_count = count, .give_up_fd = -1 };
	pthread_mutex_init(&set->mutex, NULL);
	pthread_cond_init(&set->changed, NULL);
}

static void drop_items(struct backend **items, size_t count)
{
	for (size_t i = 0; i < count; i++)
		backend_drop(items[i]);
	free(items);
}

void backend_set_deinit(struct backend_set *set)
{
	drop_items(set->items, set->count);
	free(set->problems);
	pthread_cond_destroy(&set->changed);
	pthread_mutex_destroy(&set->mutex);
}

static bool is_same(const struct target *a, const struct target *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == TARGET_AGENT)
		return a->process.pid == b->process.pid &&
		       strcmp(a->socket_path, b->socket_path) == 0;
	return strcmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0 &&
	       strcmp(a->prefix, b->prefix) == 0;
}

/* Whoever owns the process has chosen its name, and the captures of a name have a folder of it. */
static bool is_part_of_path(const char *name)
{
	return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

/* What a target is called in URLs. */
static const char *name_of(const struct target *target, char number[16])
{
	if (target->kind == TARGET_GATEWAY) {
		const char *const slash = strrchr(target->prefix, '/');
		return slash == NULL || slash[1] == '\0' ? target->host : slash + 1;
	}
	if (is_part_of_path(target->process.name))
		return target->process.name;
	snprintf(number, 16, "%d", (int)target->process.pid);
	return number;
}

/* The list that is being made. */
struct gathering {
	struct backend **items;
	size_t count;
	struct backend_problem *problems;
	size_t problem_count;
};

/* Keeps the object of a target that was there before: its history, its calls under way. */
static void gather(struct backend_set *set, const struct target *target, struct gathering *found)
{
	static uint64_t incarnations;
	struct backend *backend = NULL;
	char number[16];

	for (size_t i = 0; i < found->count; i++) {
		if (is_same(&found->items[i]->target, target))
			return;
	}
	if (found->count == BACKEND_SET_MAX)
		return;
	for (size_t i = 0; i < set->count && backend == NULL; i++) {
		if (is_same(&set->items[i]->target, target))
			backend = backend_share(set->items[i]);
	}
	if (backend == NULL) {
		backend = backend_new(target, name_of(target, number));
		backend->target.give_up_fd = &set->give_up_fd;
		backend->incarnation = __atomic_add_fetch(&incarnations, 1, __ATOMIC_RELAXED);
	}
	found->items[found->count++] = backend;
}

static struct backend_problem *add_problem(struct gathering *found, const char *name, pid_t pid)
{
	found->problems =
		xreallocarray(found->problems, found->problem_count + 1, sizeof *found->problems);
	struct backend_problem *const problem = &found->problems[found->problem_count++];

	*problem = (struct backend_problem){ .pid = pid };
	snprintf(problem->name, sizeof problem->name, "%s", name);
	return problem;
}

static void gather_entry(
	struct backend_set *set, const struct survey_entry *entry, struct gathering *found)
{
	const struct process *const process = &entry->target.process;

	switch (entry->kind) {
	case SURVEY_REACHABLE:
		gather(set, &entry->target, found);
		return;
	case SURVEY_SILENT:
		add_problem(found, process->name, process->pid)->err = entry->problem;
		return;
	case SURVEY_NO_AGENT: {
		struct error *const err = &add_problem(found, process->name, process->pid)->err;
		error_set(err, ERROR_NOT_FOUND, "%s[%d] has jemalloc, but no agent", process->name,
			(int)process->pid);
		error_hint(err, "start it with `heapctl run` to reach it");
		return;
	}
	case SURVEY_STALE:
		/* A socket left behind by a server that died is no news to anybody. */
		return;
	}
}

static void gather_all(struct backend_set *set, struct gathering *found)
{
	CLEANUP(survey_cleanup) struct survey survey = { 0 };
	struct error err;

	if (!survey_make(false, &survey, &err)) {
		add_problem(found, "targets", 0)->err = err;
		return;
	}
	for (size_t i = 0; i < survey.count; i++)
		gather_entry(set, &survey.entries[i], found);
}

/* All processes of a name that several have: a manager and its workers, two instances. */
static bool gather_namesakes(struct backend_set *set, const char *name, struct gathering *found)
{
	CLEANUP(survey_cleanup) struct survey survey = { 0 };
	const size_t before = found->count;
	struct error err;

	if (!survey_make(false, &survey, &err))
		return false;
	for (size_t i = 0; i < survey.count; i++) {
		if (process_is_called(&survey.entries[i].target.process, name))
			gather_entry(set, &survey.entries[i], found);
	}
	return found->count > before;
}

static void gather_wanted(struct backend_set *set, struct gathering *found)
{
	struct target target;
	struct error err;

	for (size_t i = 0; i < set->wanted_count; i++) {
		if (target_resolve(set->wanted[i], &target, &err))
			gather(set, &target, found);
		else if (err.kind != ERROR_USAGE || !gather_namesakes(set, set->wanted[i], found))
			add_problem(found, set->wanted[i], 0)->err = err;
	}
}

static int compare_backends(const void *a, const void *b)
{
	const struct backend *const left = *(struct backend *const *)a;
	const struct backend *const right = *(struct backend *const *)b;
	const int order = strcmp(left->name, right->name);

	return order != 0 ? order : (left->pid > right->pid) - (left->pid < right->pid);
}

static bool is_fresh(const struct backend_set *set, int64_t age_ms)
{
	int64_t rest_ms = set->refresh_took_ms * REFRESH_REST;

	if (rest_ms > REFRESH_REST_MOST_MS)
		rest_ms = REFRESH_REST_MOST_MS;
	if (rest_ms < age_ms)
		rest_ms = age_ms;
	return set->refreshed_ms != 0 && clock_monotonic_ms() - set->refreshed_ms < rest_ms;
}

/* One thread looks for targets while the others go on with what was known. Mutex held. */
static void refresh(struct backend_set *set, int64_t age_ms)
{
	while (set->is_refreshing && set->refreshed_ms == 0)
		pthread_cond_wait(&set->changed, &set->mutex);
	if (set->is_refreshing || is_fresh(set, age_ms))
		return;
	const int64_t began_ms = clock_monotonic_ms();
	set->is_refreshing = true;
	pthread_mutex_unlock(&set->mutex);

	/* Only the refreshing thread changes the items, so it may read them without the mutex. */
	struct gathering found = { .items = xcalloc(BACKEND_SET_MAX, sizeof(struct backend *)) };
	if (set->wanted_count > 0) {
		gather_wanted(set, &found);
	} else {
		gather_all(set, &found);
		qsort(found.items, found.count, sizeof *found.items, compare_backends);
	}

	pthread_mutex_lock(&set->mutex);
	struct backend **const old = set->items;
	struct backend_problem *const old_problems = set->problems;
	const size_t old_count = set->count;
	set->items = found.items;
	set->count = found.count;
	set->problems = found.problems;
	set->problem_count = found.problem_count;
	set->refreshed_ms = clock_monotonic_ms();
	set->refresh_took_ms = set->refreshed_ms - began_ms;
	set->is_refreshing = false;
	pthread_cond_broadcast(&set->changed);
	drop_items(old, old_count);
	free(old_problems);
}

bool backend_is_called(const struct backend *backend, const char *name)
{
	char number[16];

	if (strcmp(backend->name, name) == 0)
		return true;
	if (backend->target.kind != TARGET_AGENT)
		return false;
	snprintf(number, sizeof number, "%d", (int)backend->pid);
	return strcmp(number, name) == 0 || process_is_called(&backend->target.process, name);
}

static bool explain_none(const struct backend_set *set, const char *name, struct error *err)
{
	for (size_t i = 0; name != NULL && i < set->problem_count; i++) {
		if (strcmp(set->problems[i].name, name) != 0)
			continue;
		*err = set->problems[i].err;
		err->kind = ERROR_NOT_FOUND;
		return false;
	}
	if (set->wanted_count > 0 && set->problem_count > 0 && (name == NULL || set->count == 0)) {
		*err = set->problems[0].err;
		err->kind = ERROR_NOT_FOUND;
		return false;
	}
	if (name != NULL)
		error_set(err, ERROR_NOT_FOUND, "there is no target '%.100s'", name);
	else
		error_set(err, ERROR_NOT_FOUND, "there is no target yet");
	return error_hint(err,
		name != NULL ? "/targets lists them; a name may be a pid, too"
			     : "start a server with `heapctl run`, as a user whose targets this "
			       "gateway may see");
}

static bool explain_many(
	const struct backend_set *set, const char *name, size_t matches, struct error *err)
{
	char known[200] = "";
	size_t size = 0;

	for (size_t i = 0; i < set->count && size < sizeof known; i++) {
		if (name == NULL || backend_is_called(set->items[i], name))
			size += (size_t)snprintf(known + size, sizeof known - size, "%s%s",
				size == 0 ? "" : ", ", set->items[i]->target.label);
	}
	if (name == NULL)
		error_set(err, ERROR_STATE, "there are %zu targets: %s", matches, known);
	else
		error_set(err, ERROR_STATE, "%zu targets are called '%.60s': %s", matches, name,
			known);
	return error_hint(err, "say which one: /targets/PID/...");
}

/* That may be a name of several, too, and then none of them. */
static bool look_up_first(struct backend_set *set, struct backend **backend, struct error *err)
{
	size_t matches = 0;

	while (matches < set->count && backend_is_called(set->items[matches], set->wanted[0]))
		matches++;
	if (matches > 1)
		return explain_many(set, set->wanted[0], matches, err);
	*backend = backend_share(set->items[0]);
	return true;
}

/* With the mutex held. */
static bool look_up(
	struct backend_set *set, const char *name, struct backend **backend, struct error *err)
{
	struct backend *found = NULL;
	size_t matches = 0;

	for (size_t i = 0; i < set->count; i++) {
		if (name != NULL && !backend_is_called(set->items[i], name))
			continue;
		found = matches == 0 ? set->items[i] : found;
		matches++;
	}
	if (matches == 0)
		return explain_none(set, name, err);
	/* At the root, the first that was named on the command line stands for all. */
	if (matches > 1 && name == NULL && set->wanted_count > 0)
		return look_up_first(set, backend, err);
	if (matches > 1)
		return explain_many(set, name, matches, err);
	*backend = backend_share(found);
	return true;
}

/*
 * A process by its pid, which may have started since the last look at all of them: that one alone
 * costs little. With the mutex held, which is released meanwhile.
 */
static void add_by_pid(struct backend_set *set, const char *pid)
{
	struct gathering found = { .items = xcalloc(BACKEND_SET_MAX, sizeof(struct backend *)) };
	struct target target;
	struct error err;

	/* In the place of one who looks at all: nobody else changes the items now. */
	set->is_refreshing = true;
	pthread_mutex_unlock(&set->mutex);
	const bool is_there = target_resolve(pid, &target, &err);
	for (size_t i = 0; i < set->count; i++)
		found.items[found.count++] = backend_share(set->items[i]);
	if (is_there)
		gather(set, &target, &found);
	qsort(found.items, found.count, sizeof *found.items, compare_backends);

	pthread_mutex_lock(&set->mutex);
	drop_items(set->items, set->count);
	set->items = found.items;
	set->count = found.count;
	set->is_refreshing = false;
	pthread_cond_broadcast(&set->changed);
}

static bool find_newcomer(
	struct backend_set *set, const char *name, struct backend **backend, struct error *err)
{
	if (name == NULL || set->wanted_count > 0 || name[strspn(name, "0123456789")] != '\0')
		return false;
	while (set->is_refreshing)
		pthread_cond_wait(&set->changed, &set->mutex);
	if (look_up(set, name, backend, err))
		return true;
	if (err->kind != ERROR_NOT_FOUND)
		return false;
	add_by_pid(set, name);
	return look_up(set, name, backend, err);
}

bool backend_set_find(
	struct backend_set *set, const char *name, struct backend **backend, struct error *err)
{
	pthread_mutex_lock(&set->mutex);
	refresh(set, BACKEND_SET_REFRESH_MS);
	bool ok = look_up(set, name, backend, err);
	if (!ok && err->kind == ERROR_NOT_FOUND) {
		/* It may have started a moment ago. */
		refresh(set, MISS_REFRESH_MS);
		ok = look_up(set, name, backend, err) || find_newcomer(set, name, backend, err);
	}
	pthread_mutex_unlock(&set->mutex);
	return ok;
}

void backend_set_list(struct backend_set *set, struct backend_list *list)
{
	pthread_mutex_lock(&set->mutex);
	refresh(set, BACKEND_SET_REFRESH_MS);
	*list = (struct backend_list){
		.items = xcalloc(set->count, sizeof *list->items),
		.count = set->count,
		.problems = xcalloc(set->problem_count, sizeof *list->problems),
		.problem_count = set->problem_count,
	};
	for (size_t i = 0; i < set->count; i++)
		list->items[i] = backend_share(set->items[i]);
	for (size_t i = 0; i < set->problem_count; i++)
		list->problems[i] = set->problems[i];
	pthread_mutex_unlock(&set->mutex);
}

void backend_list_deinit(struct backend_list *list)
{
	drop_items(list->items, list->count);
	free(list->problems);
	*list = (struct backend_list){ 0 };
}
