/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions in the files that they are in, for their assembly: which piece of which file, and
 * which of its addresses have figures.
 */
#pragma once

#include "analysis/filter.h"
#include "cli/report_session.h"

/* A place in a routine that something was allocated at. */
struct routine_place {
	uint64_t vaddr; /* as the file has it */
	double flat;
	double cumulative;
};

struct routine {
	const char *name;   /* the view's */
	const char *source; /* file of its first place with one; "" when unknown */
	const char *path;   /* the ELF file to read instructions from */
	uint64_t start, limit;
	uint32_t start_line;
	struct routine_place *places;
	size_t count, capacity;
};

struct routine_list {
	struct routine *routines; /* by name */
	size_t count, capacity;
	struct string_pool strings;
};

/*
 * Finds the routines of a view by addresses without inlined frames. Functions of which the file is
 * missing, or that have no symbol there, are left out: where they end is not known.
 */
void routine_list_init(struct routine_list *list, const struct report_session *session,
	const struct view *view, struct pattern *pattern);
void routine_list_deinit(struct routine_list *list);
