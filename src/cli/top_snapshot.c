/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/unsample.h"
#include "analysis/view_builder.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "cli/input_guard.h"
#include "cli/report_session.h"
#include "client/agent_client.h"
#include "client/process_command.h"
#include "client/target_tree.h"
#include "source/source.h"
#include "source/symbolize.h"

enum { SITE_FUNCTIONS = 3 };

/* The profiles of a snapshot, and the processes that they are of. */
struct top_profiles {
	struct profile **profiles;
	struct process *processes;
	pid_t *pids; /* of local processes; else 0 */
	size_t count, capacity;
};

static void top_profiles_init(struct top_profiles *taken, size_t capacity)
{
	*taken = (struct top_profiles){
		.profiles = xcalloc(capacity, sizeof *taken->profiles),
		.processes = xcalloc(capacity, sizeof *taken->processes),
		.pids = xcalloc(capacity, sizeof *taken->pids),
		.capacity = capacity,
	};
}

static void top_profiles_deinit(struct top_profiles *taken)
{
	for (size_t i = 0; i < taken->count; i++)
		profile_free(taken->profiles[i]);
	free(taken->profiles);
	free(taken->processes);
	free(taken->pids);
}

/* The figures of one process more. */
static bool add_figures(
	const struct target *target, struct top_snapshot *snapshot, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!agent_check_profiling(target, &status, err))
		return false;
	snapshot->active_count += json_flag(status, "profiling.active");
	snapshot->process_count++;
	snapshot->pid = json_number(status, "pid");
	snapshot->allocated_bytes += json_number(status, "memory.allocated");
	snapshot->resident_bytes += json_number(status, "memory.resident");
	return true;
}

static bool add_target(const struct target *target, struct top_profiles *taken,
	struct top_snapshot *snapshot, struct error *err)
{
	const struct source_options wanted = { 0 };
	CLEANUP(source_close) struct source source = { 0 };
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	struct top_snapshot figures = *snapshot;

	source_of_target(target, &wanted, &source);
	if (!add_figures(target, &figures, err) || !source_profile(&source, &profile, err))
		return false;
	*snapshot = figures;
	taken->profiles[taken->count] = TAKE(profile);
	taken->processes[taken->count] = target->process;
	taken->pids[taken->count++] = target->kind == TARGET_AGENT ? target->process.pid : 0;
	return true;
}

/* Names come from the cache on disk after the first time; nothing grows from snapshot to snapshot.
 */
static bool make_view(const struct top_profiles *taken, enum stack_pruning pruning,
	struct view **view, struct error *err)
{
	CLEANUP(free_cleanup) char *cache_dir = report_session_cache_dir();
	const struct symbolizer_options symbols = { .cache_dir = cache_dir, .no_inlines = true };
	const struct symbolize_options processes = { .pids = taken->pids };
	const struct filter_text everything = { 0 };
	CLEANUP(free_cleanup) struct view_input *inputs = xcalloc(taken->count, sizeof *inputs);
	CLEANUP(symbolizer_cleanup) struct symbolizer *symbolizer = symbolizer_new(&symbols);
	CLEANUP(filter_cleanup) struct filter *filter = NULL;

	for (size_t i = 0; i < taken->count; i++)
		inputs[i].profile = taken->profiles[i];
	input_guard_begin("finding the names of functions");
	const bool is_done = symbolize(symbolizer, taken->profiles, taken->count, &processes, err);
	input_guard_end();
	if (!is_done || !filter_new(&everything, &filter, err))
		return false;
	const struct view_request request = { .granularity = VIEW_FUNCTIONS,
		.counter = PROFILE_INUSE_SPACE,
		.filter = filter,
		.pruning = pruning,
		.no_inlines = true,
		.title = "",
		.subtitle = "" };
	return view_build(inputs, taken->count, &request, view, err);
}

/* Innermost first. */
static void name_site(const struct view *view, const struct view_path *path, struct buffer *name)
{
	buffer_clear(name);
	if (path->depth == 0)
		buffer_append_string(name, "(no stack)");
	for (uint32_t i = 0; i < SITE_FUNCTIONS && i < path->depth; i++) {
		const uint32_t node = view->path_nodes[path->first + path->depth - 1 - i];
		buffer_append_string(name, i == 0 ? "" : " < ");
		buffer_append_string(name, view->nodes[node].name);
	}
}

static int compare_names(const void *a, const void *b)
{
	const struct top_item *const x = a, *const y = b;

	return strcmp(x->name, y->name);
}

/* Items of the same name are one. */
static void merge_items(struct top_items *list)
{
	size_t kept = 0;

	if (list->count == 0)
		return;
	qsort(list->items, list->count, sizeof *list->items, compare_names);
	for (size_t i = 1; i < list->count; i++) {
		struct top_item *const last = &list->items[kept];
		if (strcmp(last->name, list->items[i].name) == 0) {
			estimate_add(&last->bytes, list->items[i].bytes);
			last->objects += list->items[i].objects;
		} else {
			list->items[++kept] = list->items[i];
		}
	}
	list->count = kept + 1;
}

static void collect_sites(const struct view *view, struct top_snapshot *snapshot)
{
	CLEANUP(buffer_deinit) struct buffer name = BUFFER_OR_EXIT;
	struct top_items *const sites = &snapshot->lists[TOP_SITES];

	sites->items = xcalloc(view->path_count, sizeof *sites->items);
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		const struct estimate bytes = path->now[PROFILE_INUSE_SPACE];
		if (bytes.value <= 0)
			continue;
		name_site(view, path, &name);
		sites->items[sites->count++] = (struct top_item){
			.name = string_pool_add(&snapshot->names, buffer_string(&name)),
			.bytes = bytes,
			.objects = path->now[PROFILE_INUSE_OBJECTS].value,
		};
		estimate_add(&snapshot->bytes, bytes);
		snapshot->objects += path->now[PROFILE_INUSE_OBJECTS].value;
	}
	merge_items(sites);
}

static void add_sample(
	const struct profile *profile, const struct profile_sample *sample, struct top_item *item)
{
	struct estimate estimates[PROFILE_COUNTERS];

	unsample(profile, sample->counters, estimates);
	estimate_add(&item->bytes, estimates[PROFILE_INUSE_SPACE]);
	item->objects += estimates[PROFILE_INUSE_OBJECTS].value;
}

/* "io_thd_1 (thread 3)", in a tree with the process in front. */
static const char *name_thread(struct top_snapshot *snapshot, const struct profile *profile,
	const struct profile_thread *thread, bool has_processes)
{
	CLEANUP(buffer_deinit) struct buffer name = BUFFER_OR_EXIT;

	if (has_processes)
		buffer_printf(&name, "%s ", profile->name);
	if (thread->name[0] != '\0')
		buffer_printf(&name, "%s (thread %" PRIu64 ")", thread->name, thread->id);
	else
		buffer_printf(&name, "thread %" PRIu64, thread->id);
	return string_pool_add(&snapshot->names, buffer_string(&name));
}

static void collect_threads(
	const struct top_profiles *taken, bool has_processes, struct top_snapshot *snapshot)
{
	struct top_items *const threads = &snapshot->lists[TOP_THREADS];
	size_t all = 0;

	for (size_t i = 0; i < taken->count; i++)
		all += taken->profiles[i]->thread_count;
	threads->items = xcalloc(all, sizeof *threads->items);
	for (size_t i = 0; i < taken->count; i++) {
		const struct profile *const profile = taken->profiles[i];
		struct top_item *const first = threads->items + threads->count;
		for (size_t t = 0; t < profile->thread_count; t++)
			first[t].name =
				name_thread(snapshot, profile, &profile->threads[t], has_processes);
		for (size_t k = 0; k < profile->thread_sample_count; k++) {
			const struct profile_sample *const sample = &profile->thread_samples[k];
			add_sample(profile, sample, &first[sample->thread]);
		}
		threads->count += profile->thread_count;
	}
	merge_items(threads);
}

/*
 * "4711 postgres: checkpointer", with the title that it shows, or "4711 redis-server": a narrow
 * terminal cuts the end. A process of a gateway has the name of its profile alone.
 */
static const char *name_process(
	struct top_snapshot *snapshot, const struct profile *profile, const struct process *process)
{
	CLEANUP(buffer_deinit) struct buffer name = BUFFER_OR_EXIT;
	CLEANUP(free_cleanup) char *command = NULL;
	bool is_title = false;

	if (process->pid == 0) {
		buffer_append_string(&name, profile->name);
	} else {
		command = process_command_read(process->pid, &is_title);
		const char *const shown = is_title ? command : process->name;
		size_t size = strlen(shown);
		while (size > 0 && shown[size - 1] == ' ')
			size--;
		buffer_printf(&name, "%d %.*s", (int)process->pid, (int)size, shown);
	}
	return string_pool_add(&snapshot->names, buffer_string(&name));
}

static void collect_processes(const struct top_profiles *taken, struct top_snapshot *snapshot)
{
	struct top_items *const processes = &snapshot->lists[TOP_PROCESSES];

	processes->items = xcalloc(taken->count, sizeof *processes->items);
	for (size_t i = 0; i < taken->count; i++) {
		const struct profile *const profile = taken->profiles[i];
		struct top_item *const item = &processes->items[processes->count++];
		item->name = name_process(snapshot, profile, &taken->processes[i]);
		item->pid = taken->processes[i].pid;
		item->parent = taken->processes[i].parent;
		for (size_t k = 0; k < profile->sample_count; k++)
			add_sample(profile, &profile->samples[k], item);
	}
	qsort(processes->items, processes->count, sizeof *processes->items, compare_names);
}

/* The rest of a snapshot, once its profiles are there. */
static bool complete(const struct top_profiles *taken, bool is_tree, enum stack_pruning pruning,
	struct top_snapshot *snapshot, struct error *err)
{
	CLEANUP(view_cleanup) struct view *view = NULL;

	if (!make_view(taken, pruning, &view, err))
		return false;
	string_pool_init(&snapshot->names);
	collect_sites(view, snapshot);
	collect_threads(taken, is_tree, snapshot);
	collect_processes(taken, snapshot);
	snapshot->time_ms = clock_realtime_ms();
	snapshot->is_sampling = snapshot->active_count == snapshot->process_count;
	snapshot->attached_ms = is_tree ? 0 : view->attached_ms;
	if (is_tree)
		snapshot->pid = 0;
	return true;
}

bool top_snapshot_take(const struct target *target, enum stack_pruning pruning,
	struct top_snapshot *snapshot, struct error *err)
{
	CLEANUP(top_profiles_deinit) struct top_profiles taken = { 0 };
	struct top_snapshot made = { 0 };

	top_profiles_init(&taken, 1);
	if (!add_target(target, &taken, &made, err) ||
		!complete(&taken, false, pruning, &made, err))
		return false;
	*snapshot = made;
	return true;
}

static void leave_out(
	struct top_snapshot *snapshot, const struct target *target, const struct error *problem)
{
	const bool is_named = strstr(problem->message, target->label) != NULL;

	if (snapshot->left_out_count++ == 0)
		snprintf(snapshot->left_out, sizeof snapshot->left_out, "%s%s%s",
			is_named ? "" : target->label, is_named ? "" : ": ", problem->message);
}

bool top_snapshot_take_tree(const char *operand, const int *cancel_fd, enum stack_pruning pruning,
	struct top_snapshot *snapshot, struct error *err)
{
	CLEANUP(target_tree_deinit) struct target_tree tree = { 0 };
	CLEANUP(top_profiles_deinit) struct top_profiles taken = { 0 };
	struct top_snapshot made = { 0 };
	struct error problem = { 0 };

	if (!target_tree_resolve(operand, &tree, err))
		return false;
	top_profiles_init(&taken, tree.count);
	for (size_t i = 0; i < tree.count; i++) {
		struct target_tree_entry *const entry = &tree.entries[i];
		problem = entry->problem;
		entry->target.cancel_fd = cancel_fd;
		if (!entry->is_reached || !add_target(&entry->target, &taken, &made, &problem))
			leave_out(&made, &entry->target, &problem);
	}
	if (taken.count == 0) {
		*err = problem;
		return error_prefix(err, "%s: no process has a profile", operand);
	}
	if (!complete(&taken, true, pruning, &made, err))
		return false;
	*snapshot = made;
	return true;
}

void top_snapshot_deinit(struct top_snapshot *snapshot)
{
	for (int i = 0; i < TOP_LISTS; i++)
		free(snapshot->lists[i].items);
	string_pool_deinit(&snapshot->names);
	*snapshot = (struct top_snapshot){ 0 };
}

void top_snapshot_copy(struct top_snapshot *copy, const struct top_snapshot *snapshot)
{
	*copy = *snapshot;
	string_pool_init(&copy->names);
	for (int i = 0; i < TOP_LISTS; i++) {
		const struct top_items *const from = &snapshot->lists[i];
		struct top_items *const to = &copy->lists[i];
		to->items = xcalloc(from->count, sizeof *to->items);
		for (size_t k = 0; k < from->count; k++) {
			to->items[k] = from->items[k];
			to->items[k].name = string_pool_add(&copy->names, from->items[k].name);
		}
	}
}

static struct top_item *find_item(
	const struct top_items *list, size_t count, const struct top_item *wanted)
{
	/* The title of a process changes. */
	for (size_t i = 0; wanted->pid != 0 && i < count; i++) {
		if (list->items[i].pid == wanted->pid)
			return &list->items[i];
	}
	if (wanted->pid != 0 || count == 0)
		return NULL;
	return bsearch(wanted, list->items, count, sizeof *wanted, compare_names);
}

static void compare_items(
	struct top_items *list, const struct top_items *base, struct string_pool *names)
{
	const size_t own_count = list->count;

	list->items = xreallocarray(list->items, own_count + base->count, sizeof *list->items);
	for (size_t i = 0; i < base->count; i++) {
		const struct top_item *const before = &base->items[i];
		struct top_item *const now = find_item(list, own_count, before);
		if (now != NULL) {
			now->base_bytes = before->bytes.value;
			now->base_variance = before->bytes.variance;
			continue;
		}
		list->items[list->count++] = (struct top_item){
			.name = string_pool_add(names, before->name),
			.base_bytes = before->bytes.value,
			.base_variance = before->bytes.variance,
			.pid = before->pid,
			.parent = before->parent,
		};
	}
}

void top_snapshot_compare(struct top_snapshot *snapshot, const struct top_snapshot *base)
{
	snapshot->base_bytes = base->bytes.value;
	snapshot->base_variance = base->bytes.variance;
	snapshot->base_ms = base->time_ms;
	for (int i = 0; i < TOP_LISTS; i++)
		compare_items(&snapshot->lists[i], &base->lists[i], &snapshot->names);
}
