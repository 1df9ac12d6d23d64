/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragmentation by site: the free places in slabs of each size class, shared out among the sites
 * whose live objects are in that class, by number of objects. A slab stays as long as one object is
 * in it, so these are the sites that keep it.
 *
 * A profile has the objects' mean size for each stack, not their sizes. Stacks that allocate one
 * size, which most are, have their class exactly; a mean between two classes is shared between
 * these so that it stays the mean. Objects beyond the largest small class have no slabs.
 *
 * Each path begins with its class ("64-byte objects"), so that trees and flame graphs show the
 * sites below it. A class with free places and without a sampled object is not attributed: it has a
 * path without a site.
 */
#pragma once

#include <jansson.h>

#include "analysis/view_builder.h"

struct fragmentation_class {
	double size;	   /* of one object */
	double free_bytes; /* of all its slabs */
};

struct fragmentation {
	const struct fragmentation_class *classes; /* small ones, ascending */
	size_t class_count;
};

/*
 * Reads the size classes from malloc_stats_print's JSON. ERROR_INPUT, with `name` in front, when
 * there are none. Free *classes with free().
 */
MUST_CHECK bool fragmentation_classes_read(const char *name, const json_t *document,
	struct fragmentation_class **classes, size_t *count, struct error *err);

/*
 * Builds a view in which bytes in use are free bytes in slabs: the request's counter is ignored,
 * and it must not observe.
 */
MUST_CHECK bool fragmentation_build(const struct fragmentation *fragmentation,
	const struct view_input *inputs, size_t input_count, const struct view_request *request,
	struct view **ret, struct error *err);
