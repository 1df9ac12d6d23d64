/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TARGET:*, several processes at once: those that the text before ":*" names (a pid, a name,
 * NAME@USER) and all their descendants, as servers have them that fork a process for each
 * connection or worker.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/target.h"

struct target_tree_entry {
	struct target target; /* where it is not reached, its process and names alone */
	bool is_reached;
	struct error problem; /* why it is not reached */
};

/* Starts as { 0 }. */
struct target_tree {
	struct target_tree_entry *entries; /* in the order in which they were found */
	size_t count, capacity;
	size_t reached_count;
};

/*
 * Finds the processes and the agent of each, which is woken where it is on demand. A process that
 * cannot be reached has its reason in its entry. ERROR_NOT_FOUND where there is no such process;
 * where none of them can be reached, the reason of the first.
 */
MUST_CHECK bool target_tree_resolve(const char *text, struct target_tree *tree, struct error *err);

/*
 * Adds the processes that began since, behind those that are there, which stay. Of one that has
 * just begun it is not known yet whether it gets an agent: these are counted alone.
 */
MUST_CHECK bool target_tree_update(
	const char *text, struct target_tree *tree, size_t *young_count, struct error *err);
void target_tree_deinit(struct target_tree *tree);
