/* SPDX-License-Identifier: Apache-2.0 */
#include "client/target_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/user_name.h"
#include "base/xalloc.h"
#include "client/target_agent.h"
#include "client/target_resolve.h"

static const char suffix[] = TARGET_TREE_SUFFIX;

/* What the text before ":*" asks for. */
struct tree_root {
	pid_t pid;
	char name[256];
	uid_t owner;
};

struct process_set {
	struct process *processes;
	bool *is_member;
	size_t count;
};

static void process_set_deinit(struct process_set *set)
{
	free(set->processes);
	free(set->is_member);
}

static bool parse_root(const char *text, struct tree_root *root, struct error *err)
{
	char before[256];

	snprintf(before, sizeof before, "%.*s", (int)(strlen(text) - strlen(suffix)), text);
	root->owner = USER_ANY;
	if (!process_parse_pid(before, &root->pid, err))
		return false;
	if (!user_name_split(before, root->name, sizeof root->name, &root->owner))
		snprintf(root->name, sizeof root->name, "%s", before);
	return true;
}

static bool is_root(const struct process *process, const struct tree_root *root)
{
	if (root->pid != 0)
		return process->pid == root->pid;
	return (root->owner == USER_ANY || process->uid == root->owner) &&
	       process_is_called(process, root->name);
}

static bool has_member(const struct process_set *set, pid_t pid)
{
	for (size_t i = 0; i < set->count; i++) {
		if (set->processes[i].pid == pid)
			return set->is_member[i];
	}
	return false;
}

static bool read_processes(struct process_set *set, struct error *err)
{
	CLEANUP(free_cleanup) pid_t *pids = NULL;
	size_t count = 0;
	struct error ignored;

	if (!process_list(&pids, &count, err))
		return false;
	set->processes = xcalloc(count, sizeof *set->processes);
	set->is_member = xcalloc(count, sizeof *set->is_member);
	for (size_t i = 0; i < count; i++) {
		if (pids[i] != getpid() &&
			process_read(pids[i], &set->processes[set->count], &ignored))
			set->count++;
	}
	return true;
}

static bool has_entry(const struct target_tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->count; i++) {
		if (tree->entries[i].target.process.pid == pid)
			return true;
	}
	return false;
}

/*
 * A child may have a lower pid than its parent, after the numbers began again. Those that were
 * found before stay members when their parent has ended.
 */
static void choose_members(
	struct process_set *set, const struct tree_root *root, const struct target_tree *tree)
{
	bool has_changed = false;

	for (size_t i = 0; i < set->count; i++)
		set->is_member[i] =
			is_root(&set->processes[i], root) || has_entry(tree, set->processes[i].pid);
	do {
		has_changed = false;
		for (size_t i = 0; i < set->count; i++) {
			if (set->is_member[i] || !has_member(set, set->processes[i].parent))
				continue;
			set->is_member[i] = true;
			has_changed = true;
		}
	} while (has_changed);
}

static void add_process(struct target_tree *tree, const struct process *process)
{
	char pid[16];

	tree->entries =
		xgrow(tree->entries, &tree->capacity, tree->count + 1, sizeof *tree->entries);
	struct target_tree_entry *const entry = &tree->entries[tree->count++];
	*entry = (struct target_tree_entry){ 0 };
	snprintf(pid, sizeof pid, "%d", (int)process->pid);
	entry->is_reached = target_resolve(pid, &entry->target, &entry->problem);
	if (entry->is_reached)
		tree->reached_count++;
	else
		target_of_sleeper(process, &entry->target);
}

static bool find_members(const char *text, const struct target_tree *tree, struct process_set *set,
	struct error *err)
{
	struct tree_root root = { 0 };

	if (!parse_root(text, &root, err) || !read_processes(set, err))
		return false;
	choose_members(set, &root, tree);
	return true;
}

bool target_tree_resolve(const char *text, struct target_tree *tree, struct error *err)
{
	CLEANUP(process_set_deinit) struct process_set set = { 0 };

	if (!find_members(text, tree, &set, err))
		return false;
	for (size_t i = 0; i < set.count; i++) {
		if (set.is_member[i])
			add_process(tree, &set.processes[i]);
	}
	if (tree->count == 0) {
		error_set(err, ERROR_NOT_FOUND, "%s: no such process", text);
		return error_hint(err, "heapctl ps lists the targets");
	}
	if (tree->reached_count != 0)
		return true;
	*err = tree->entries[0].problem;
	if (tree->count > 1)
		error_prefix(
			err, "none of the %zu processes of %s can be reached", tree->count, text);
	return false;
}

bool target_tree_update(
	const char *text, struct target_tree *tree, size_t *young_count, struct error *err)
{
	CLEANUP(process_set_deinit) struct process_set set = { 0 };

	if (!find_members(text, tree, &set, err))
		return false;
	*young_count = 0;
	for (size_t i = 0; i < set.count; i++) {
		if (!set.is_member[i] || has_entry(tree, set.processes[i].pid))
			continue;
		if (process_age_ms(set.processes[i].pid) < TARGET_YOUNG_MS)
			++*young_count;
		else
			add_process(tree, &set.processes[i]);
	}
	return true;
}

void target_tree_deinit(struct target_tree *tree)
{
	free(tree->entries);
	*tree = (struct target_tree){ 0 };
}
