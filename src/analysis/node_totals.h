/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up what nodes allocate, stack by stack, for those who want nothing but these totals: that
 * takes no memory for stacks and half the time of a view with paths.
 */
#pragma once

#include "analysis/view.h"

/* The value and the variance of an estimate: side by side, so that both are added at once. */
typedef double node_pair __attribute__((vector_size(16)));

/* Small, because all nodes together should stay in the processor's cache. */
struct node_total {
	node_pair value_variance; /* of the cumulative estimate */
	double samples;		  /* likewise */
	uint32_t seen_by;	  /* the number of the stack that was added last */
};

/* Starts as { 0 }. */
struct node_totals {
	struct node_total *nodes;
	struct estimate *flat;
	size_t count, capacity;
	uint32_t stack_count;
	double whole; /* of stacks that have nodes */
};

void node_totals_deinit(struct node_totals *totals);

/* Makes room for so many nodes: all that are added. New ones start with nothing. */
void node_totals_make_room(struct node_totals *totals, size_t node_count);

/*
 * Begins to fetch the memory of a node that a stack will be added to; that is done well before,
 * so that no load waits for it.
 */
static inline void node_totals_prefetch(const struct node_totals *totals, uint32_t node)
{
	__builtin_prefetch(&totals->nodes[node], 1);
}

/* The same of what it allocates itself, for the last node of a stack. */
static inline void node_totals_prefetch_leaf(const struct node_totals *totals, uint32_t node)
{
	__builtin_prefetch(&totals->flat[node], 1);
}

/* Adds what was allocated at a stack, root first. */
void node_totals_add(struct node_totals *totals, const uint32_t *nodes, size_t depth,
	const struct estimate *estimate);

/* One for each node; release with free(). */
struct view_totals *node_totals_take(const struct node_totals *totals);
