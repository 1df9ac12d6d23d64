/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/backend_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/user_name.h"
#include "base/xalloc.h"
#include "client/attach_check.h"
#include "client/survey.h"
#include "client/http_client.h"
#include "gateway/request.h"
#include "client/target_resolve.h"

enum {
	MISS_REFRESH_MS = 300,
	/*
	 * Looking at all processes takes long on a busy machine: pause for this many times as long.
	 */
	REFRESH_REST = 8,
	REFRESH_REST_MAX_MS = 10 * 1000,
	SLEEPER_AGE_MS = 2000,
};

void backend_set_init(struct backend_set *set, const char *const *wanted, size_t count)
{
	*set = (struct backend_set){ .wanted = wanted, .wanted_count = count, .cancel_fd = -1 };
	pthread_mutex_init(&set->mutex, NULL);
	pthread_cond_init(&set->changed, NULL);
	for (size_t i = 0; i < count; i++) {
		char name[128];
		uid_t owner;
		if (!gateway_url_detect(wanted[i]) && strchr(wanted[i], '/') == NULL &&
			user_name_split(wanted[i], name, sizeof name, &owner))
			name_registry_assign(&set->owners, name, owner);
	}
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
	name_registry_deinit(&set->owners);
	pthread_cond_destroy(&set->changed);
	pthread_mutex_destroy(&set->mutex);
}

static bool is_same(const struct target *a, const struct target *b)
{
	if (a->kind != b->kind)
		return false;
	/*
	 * The same pid may have another program by now, after execve(2) or in a new process. An
	 * agent that starts on demand has a socket only at times.
	 */
	if (a->kind == TARGET_AGENT)
		return a->process.pid == b->process.pid && a->owner == b->owner &&
		       strcmp(a->process.name, b->process.name) == 0 &&
		       (strcmp(a->socket_path, b->socket_path) == 0 ||
			       (a->process.pid != 0 &&
				       (*a->socket_path == '\0' || *b->socket_path == '\0')));
	return strcmp(a->socket_path, b->socket_path) == 0 &&
	       strcmp(a->url.host, b->url.host) == 0 && strcmp(a->url.port, b->url.port) == 0 &&
	       strcmp(a->url.prefix, b->url.prefix) == 0;
}

/* The process chooses its name, and the captures of a name have a folder of that name. */
static bool is_part_of_path(const char *name)
{
	return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

/* Names that look like a pid or like "NAME@USER" get their user. */
static bool is_ambiguous(const char *name)
{
	return name[strspn(name, "0123456789")] == '\0' || strchr(name, '@') != NULL;
}

static bool claim(struct backend_set *set, const char *name, uid_t owner)
{
	pthread_mutex_lock(&set->mutex);
	const bool is_owner = name_registry_claim(&set->owners, name, owner);
	pthread_mutex_unlock(&set->mutex);
	return is_owner;
}

/* The target's name in URLs. Without the mutex. */
static void name_target(struct backend_set *set, const struct target *target, char name[128])
{
	const char *const own = target->process.name;
	char user[USER_NAME_BYTES];

	if (target->kind == TARGET_GATEWAY) {
		const char *const slash = strrchr(target->url.prefix, '/');
		snprintf(name, 128, "%s",
			slash == NULL || slash[1] == '\0' ? target->url.host : slash + 1);
		return;
	}
	if (!is_part_of_path(own)) {
		snprintf(name, 128, "%d", (int)target->process.pid);
		return;
	}
	snprintf(name, 128, "%s", own);
	if (!is_ambiguous(own) && claim(set, own, target->owner))
		return;
	user_name_format(target->owner, user);
	snprintf(name, 128, "%.70s@%s", own, user);
}

/* A new list in the making. */
struct found_backends {
	struct backend **items;
	size_t count, capacity;
	struct backend_problem *problems;
	size_t problem_count;
};

/* Keeps the object of a target that was known before, with its history and its running calls. */
static void gather(
	struct backend_set *set, const struct target *target, struct found_backends *found)
{
	static uint64_t generations;
	struct backend *backend = NULL;
	char name[128];

	for (size_t i = 0; i < found->count; i++) {
		if (is_same(&found->items[i]->target, target))
			return;
	}
	for (size_t i = 0; i < set->count && backend == NULL; i++) {
		if (is_same(&set->items[i]->target, target))
			backend = backend_share(set->items[i]);
	}
	if (backend == NULL) {
		name_target(set, target, name);
		backend = backend_new(target, name);
		backend->target.cancel_fd = &set->cancel_fd;
		backend->generation = __atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED);
	}
	found->items =
		xgrow(found->items, &found->capacity, found->count + 1, sizeof(struct backend *));
	found->items[found->count++] = backend;
}

static struct backend_problem *add_problem(
	struct found_backends *found, const char *name, pid_t pid)
{
	found->problems =
		xreallocarray(found->problems, found->problem_count + 1, sizeof *found->problems);
	struct backend_problem *const problem = &found->problems[found->problem_count++];

	*problem = (struct backend_problem){ .pid = pid };
	snprintf(problem->name, sizeof problem->name, "%s", name);
	return problem;
}

static void gather_without_agent(const struct process *process, struct found_backends *found)
{
	struct error *const err = &add_problem(found, process->name, process->pid)->err;
	struct process_modules modules;

	if (!process_read_modules(process->pid, &modules, err))
		return;
	error_set(err, ERROR_NOT_FOUND, "%s[%d] has jemalloc, but no agent", process->name,
		(int)process->pid);
	attach_offer(process, &modules, err);
}

static void gather_entry(
	struct backend_set *set, const struct survey_entry *entry, struct found_backends *found)
{
	const struct process *const process = &entry->target.process;

	switch (entry->kind) {
	case SURVEY_REACHABLE:
		gather(set, &entry->target, found);
		return;
	case SURVEY_ASLEEP:
		/* Each look wakes it; a short-lived child is left alone. */
		if (process_age_ms(process->pid) >= SLEEPER_AGE_MS)
			gather(set, &entry->target, found);
		return;
	case SURVEY_SILENT:
		add_problem(found, process->name, process->pid)->err = entry->problem;
		return;
	case SURVEY_NO_AGENT:
		gather_without_agent(process, found);
		return;
	case SURVEY_STALE:
		/* The server that left the socket has ended. */
		return;
	}
}

static int compare_entries(const void *a, const void *b)
{
	const struct survey_entry *const left = a, *const right = b;
	const int order = name_registry_compare(left->target.owner, right->target.owner);

	return order != 0 ? order
			  : (left->target.process.pid > right->target.process.pid) -
				    (left->target.process.pid < right->target.process.pid);
}

/* Sorted by name_registry_compare: the first may claim a name. */
static bool survey_sorted(struct survey *survey, struct error *err)
{
	if (!survey_make(false, survey, err))
		return false;
	if (survey->count > 0)
		qsort(survey->entries, survey->count, sizeof *survey->entries, compare_entries);
	return true;
}

static void gather_all(struct backend_set *set, struct found_backends *found)
{
	CLEANUP(survey_deinit) struct survey survey = { 0 };
	struct error err;

	if (!survey_sorted(&survey, &err)) {
		add_problem(found, "targets", 0)->err = err;
		return;
	}
	for (size_t i = 0; i < survey.count; i++)
		gather_entry(set, &survey.entries[i], found);
}

/*
 * All processes that share a name, such as a manager and its workers. Only those of one user,
 * which has the name from now on.
 */
static bool gather_namesakes(
	struct backend_set *set, const char *name, uid_t owner, struct found_backends *found)
{
	CLEANUP(survey_deinit) struct survey survey = { 0 };
	const size_t before = found->count;
	struct error err;

	if (!survey_sorted(&survey, &err))
		return false;
	for (size_t i = 0; i < survey.count; i++) {
		const struct survey_entry *const entry = &survey.entries[i];
		if (!process_is_called(&entry->target.process, name) ||
			(owner != USER_ANY && entry->target.owner != owner))
			continue;
		if (entry->kind == SURVEY_REACHABLE && claim(set, name, entry->target.owner))
			owner = entry->target.owner;
		gather_entry(set, entry, found);
	}
	return found->count > before;
}

/* Only processes of the name's user. */
static void gather_name(struct backend_set *set, const char *text, struct found_backends *found)
{
	struct target target;
	struct error err;
	char name[256];
	uid_t owner = USER_ANY;

	if (!user_name_split(text, name, sizeof name, &owner)) {
		snprintf(name, sizeof name, "%s", text);
		pthread_mutex_lock(&set->mutex);
		(void)name_registry_find(&set->owners, name, &owner);
		pthread_mutex_unlock(&set->mutex);
		if (owner == USER_ANY)
			owner = target_trusted_owner(name);
	}
	if (target_resolve_of(name, owner, &target, &err)) {
		(void)claim(set, name, target.owner);
		gather(set, &target, found);
	} else if (err.kind != ERROR_USAGE || !gather_namesakes(set, name, owner, found)) {
		add_problem(found, text, 0)->err = err;
	}
}

static void gather_wanted(struct backend_set *set, struct found_backends *found)
{
	struct target target;
	struct error err;

	for (size_t i = 0; i < set->wanted_count; i++) {
		const char *const text = set->wanted[i];
		if (text[strspn(text, "0123456789")] != '\0' && !gateway_url_detect(text) &&
			strchr(text, '/') == NULL)
			gather_name(set, text, found);
		else if (target_resolve(text, &target, &err))
			gather(set, &target, found);
		else
			add_problem(found, text, 0)->err = err;
	}
}

/*
 * Above BACKEND_SET_MAX each user gets the same number, as far as needed, so that a user cannot
 * take all slots by starting processes.
 */
static void share_slots(struct found_backends *found)
{
	CLEANUP(free_cleanup) size_t *turns = NULL;
	size_t kept = 0;

	if (found->count <= BACKEND_SET_MAX)
		return;
	turns = xcalloc(found->count, sizeof *turns);
	for (size_t i = 0; i < found->count; i++) {
		for (size_t j = 0; j < i; j++)
			turns[i] += found->items[j]->owner == found->items[i]->owner;
	}
	size_t limit = 0, taken = 0;
	for (size_t fitting = 0;; limit++) {
		for (size_t i = 0; i < found->count; i++)
			fitting += turns[i] == limit;
		if (fitting > BACKEND_SET_MAX)
			break;
		taken = fitting;
	}
	for (size_t i = 0; i < found->count; i++) {
		const bool is_last_turn = turns[i] == limit && taken < BACKEND_SET_MAX;
		taken += is_last_turn;
		if (turns[i] < limit || is_last_turn)
			found->items[kept++] = found->items[i];
		else
			backend_drop(found->items[i]);
	}
	found->count = kept;
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

	if (rest_ms > REFRESH_REST_MAX_MS)
		rest_ms = REFRESH_REST_MAX_MS;
	if (rest_ms < age_ms)
		rest_ms = age_ms;
	return set->refreshed_ms != 0 && clock_monotonic_ms() - set->refreshed_ms < rest_ms;
}

/* One thread looks for targets while the others use the old list. Mutex held. */
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
	struct found_backends found = { 0 };
	if (set->wanted_count > 0)
		gather_wanted(set, &found);
	else
		gather_all(set, &found);
	share_slots(&found);
	if (set->wanted_count == 0 && found.count > 0)
		qsort(found.items, found.count, sizeof *found.items, compare_backends);

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

static void split_name(const char *text, struct called_name *called)
{
	snprintf(called->text, sizeof called->text, "%s", text);
	if (!user_name_split(called->text, called->name, sizeof called->name, &called->owner))
		called->owner = USER_ANY;
}

/* With the mutex held. */
static bool is_called(struct backend_set *set, const struct backend *backend, const char *name)
{
	char number[16];
	uid_t owner;

	if (strcmp(backend->name, name) == 0)
		return true;
	if (backend->target.kind != TARGET_AGENT)
		return false;
	snprintf(number, sizeof number, "%d", (int)backend->pid);
	if (strcmp(number, name) == 0)
		return true;
	/* A process may have the pid of another one as its name. */
	if (is_ambiguous(name) && strchr(name, '@') == NULL)
		return false;
	if (strncmp(set->last.text, name, sizeof set->last.text - 1) != 0)
		split_name(name, &set->last);
	if (set->last.owner != USER_ANY)
		return set->last.owner == backend->owner &&
		       process_is_called(&backend->target.process, set->last.name);
	if (name_registry_find(&set->owners, name, &owner) && owner != backend->owner)
		return false;
	return process_is_called(&backend->target.process, name);
}

bool backend_set_is_called(struct backend_set *set, const struct backend *backend, const char *name)
{
	pthread_mutex_lock(&set->mutex);
	const bool is_so = is_called(set, backend, name);
	pthread_mutex_unlock(&set->mutex);
	return is_so;
}

void backend_set_remember(struct backend_set *set, const char *name, uid_t owner)
{
	(void)claim(set, name, owner);
}

void backend_set_plain_name(struct backend_set *set, const char *name, char *out, size_t size)
{
	char plain[128];
	uid_t owner, asked;

	pthread_mutex_lock(&set->mutex);
	const bool is_owner = user_name_split(name, plain, sizeof plain, &asked) &&
			      name_registry_find(&set->owners, plain, &owner) && owner == asked;
	pthread_mutex_unlock(&set->mutex);
	snprintf(out, size, "%s", is_owner ? plain : name);
}

/*
 * A name that no user has yet but processes of several users match, such as a program's name: from
 * now on it belongs to the first of them. With the mutex held.
 */
static void claim_for_first(struct backend_set *set, const char *name)
{
	const struct backend *first = NULL;
	uid_t owner;

	if (name == NULL || is_ambiguous(name) || name_registry_find(&set->owners, name, &owner))
		return;
	for (size_t i = 0; i < set->count; i++) {
		const struct backend *const item = set->items[i];
		if (item->target.kind == TARGET_AGENT && is_called(set, item, name) &&
			(first == NULL || name_registry_compare(item->owner, first->owner) < 0))
			first = item;
	}
	if (first != NULL)
		(void)name_registry_claim(&set->owners, name, first->owner);
}

static bool explain_problem(const struct backend_problem *problem, struct error *err)
{
	*err = problem->err;
	if (!reply_is_shortage(err))
		err->kind = ERROR_NOT_FOUND;
	return false;
}

static bool explain_none(const struct backend_set *set, const char *name, struct error *err)
{
	for (size_t i = 0; name != NULL && i < set->problem_count; i++) {
		if (strcmp(set->problems[i].name, name) != 0)
			continue;
		return explain_problem(&set->problems[i], err);
	}
	if (set->wanted_count > 0 && set->problem_count > 0 && (name == NULL || set->count == 0)) {
		return explain_problem(&set->problems[0], err);
	}
	if (name != NULL)
		error_set(err, ERROR_NOT_FOUND, "there is no target '%.100s'", name);
	else
		error_set(err, ERROR_NOT_FOUND, "there is no target yet");
	return error_hint(err, name != NULL ? "/targets lists them; a pid works, too"
					    : "start a server with `heapctl run`, as a user whose "
					      "processes this gateway may read");
}

static bool explain_many(
	struct backend_set *set, const char *name, size_t matches, struct error *err)
{
	char known[200] = "";
	size_t size = 0;

	for (size_t i = 0; i < set->count && size < sizeof known; i++) {
		if (name == NULL || is_called(set, set->items[i], name))
			size += (size_t)snprintf(known + size, sizeof known - size, "%s%s",
				size == 0 ? "" : ", ", set->items[i]->target.label);
	}
	if (name == NULL)
		error_set(err, ERROR_STATE, "there are %zu targets: %s", matches, known);
	else
		error_set(err, ERROR_STATE, "%zu targets are called '%.60s': %s", matches, name,
			known);
	return error_hint(err, "choose one: /targets/PID/...");
}

/* That name may match several targets, too; then none is chosen. */
static bool look_up_first(struct backend_set *set, struct backend **backend, struct error *err)
{
	size_t matches = 0;

	while (matches < set->count && is_called(set, set->items[matches], set->wanted[0]))
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

	claim_for_first(set, name);
	for (size_t i = 0; i < set->count; i++) {
		if (name != NULL && !is_called(set, set->items[i], name))
			continue;
		found = matches == 0 ? set->items[i] : found;
		matches++;
	}
	if (matches == 0)
		return explain_none(set, name, err);
	/* The root path serves the first one named on the command line. */
	if (matches > 1 && name == NULL && set->wanted_count > 0)
		return look_up_first(set, backend, err);
	if (matches > 1)
		return explain_many(set, name, matches, err);
	*backend = backend_share(found);
	return true;
}

/*
 * Adds one process by its pid, which may have started since the last refresh: much cheaper than
 * another refresh. With the mutex held, which is released meanwhile.
 */
static void add_by_pid(struct backend_set *set, const char *pid)
{
	struct found_backends found = { 0 };
	struct target target;
	struct error err;

	/* Like a refresh: no other thread changes the items now. */
	set->is_refreshing = true;
	pthread_mutex_unlock(&set->mutex);
	const bool is_there = target_resolve(pid, &target, &err);
	for (size_t i = 0; i < set->count; i++) {
		found.items = xgrow(
			found.items, &found.capacity, found.count + 1, sizeof(struct backend *));
		found.items[found.count++] = backend_share(set->items[i]);
	}
	if (is_there)
		gather(set, &target, &found);
	share_slots(&found);
	if (found.count > 0)
		qsort(found.items, found.count, sizeof *found.items, compare_backends);

	pthread_mutex_lock(&set->mutex);
	drop_items(set->items, set->count);
	set->items = found.items;
	set->count = found.count;
	set->is_refreshing = false;
	pthread_cond_broadcast(&set->changed);
}

static bool find_new(
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
	struct called_name called;

	if (name != NULL)
		split_name(name, &called);
	pthread_mutex_lock(&set->mutex);
	refresh(set, BACKEND_SET_REFRESH_MS);
	if (name != NULL)
		set->last = called;
	bool ok = look_up(set, name, backend, err);
	if (!ok && err->kind == ERROR_NOT_FOUND) {
		/* It may just have started. */
		refresh(set, MISS_REFRESH_MS);
		ok = look_up(set, name, backend, err) || find_new(set, name, backend, err);
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
