/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the nodes of a view from the locations of profiles: decides what is the same node, and
 * what it is called.
 *
 * Functions are the same when name, module and declaration line agree (the line only while all
 * profiles have the same build of the module, since it moves with every edit), so two static
 * functions of one name stay two. Where nothing is known the node is a place in a module,
 * "[libfoo.so.1]+0x1234": names are never guessed, but it is where the
 * function begins when that is known. Nodes that would look alike get more of their name: the
 * arguments, then the module, then file and line.
 */
#pragma once

#include "analysis/filter.h"
#include "analysis/modules.h"
#include "analysis/view.h"

struct node_builder;

struct node_rules {
	bool no_inlines;	   /* a location is one node: the function that really is there */
	bool regardless_of_module; /* functions of one name are the same wherever they are */
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

/* Gives nodes that look alike different names; once, at the end. */
void node_builder_finish(struct node_builder *builder);
