/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the nodes of a view from the locations of profiles: decides what is the same node, and
 * names it.
 *
 * Functions are the same when name, module and declaration line agree (the line only while all
 * profiles have the same build of the module, since it moves with every edit), so two static
 * functions of one name stay two. Where nothing is known the node is a place in a module,
 * "[libfoo.so.1]+0x1234": the start of the function when that is known. Names are never guessed.
 * Nodes that would have the same name get more of it: the arguments, then the module, then file and
 * line.
 */
#pragma once

#include "analysis/filter.h"
#include "analysis/modules.h"
#include "analysis/view.h"

struct node_builder;

struct node_rules {
	bool no_inlines;	   /* a location is one node: the function that really is there */
	bool regardless_of_module; /* functions of one name are the same wherever they are */
	bool regardless_of_start_line; /* ... or wherever they begin */
	bool by_printed_name; /* functions and places that are printed alike are the same */
};

/* `filter` and `table` must outlive it. */
struct node_builder *node_builder_new(struct view *view, struct filter *filter,
	const struct module_table *table, struct node_rules rules);
void node_builder_free(struct node_builder *builder);

/* Locations come from this profile now. */
void node_builder_enter(struct node_builder *builder, const struct profile *profile,
	const struct module_place *places);

/*
 * Writes the nodes of a location, outermost first, and returns how many; 0 when show and hide
 * leave none. Valid until the next call.
 */
size_t node_builder_make(struct node_builder *builder, const struct profile_location *location,
	const uint32_t **nodes);

/* Gives nodes of the same name different ones; once, at the end. */
void node_builder_finish(struct node_builder *builder);

/* The value and the variance of an estimate: side by side, so that both are added at once. */
typedef double node_pair __attribute__((vector_size(16)));

/* Small, because all nodes together should stay in the processor's cache. */
struct node_total {
	node_pair value_variance; /* of the cumulative estimate */
	double samples;		  /* likewise */
	uint32_t seen_by;	  /* the number of the stack that was added last */
};

/*
 * Adds up what nodes allocate, stack by stack. Where only these totals are needed, this takes no
 * memory for stacks and half the time of a view with paths. Starts as { 0 }.
 */
struct node_totals {
	struct node_total *nodes;
	struct estimate *flat;
	size_t count, capacity;
	uint32_t stack_count;
	double whole; /* of stacks that have nodes */
};

void node_totals_deinit(struct node_totals *totals);

/* Makes room for this number of nodes: all that are added. New ones start empty. */
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
