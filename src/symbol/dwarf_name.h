/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of functions. The DIE of code mostly refers to another one that has the name: an
 * inlined call to the abstract function, that to its declaration, also in other units or in the
 * file that dwz made. Names are remembered by DIE, since one function is inlined in many places.
 *
 * gcc writes no linkage name for functions of anonymous namespaces, for static ones, and for those
 * of classes inside functions. Their full names are put together from the names of the DIEs around
 * them: "(anonymous namespace)::Table::insert". A DIE does not refer to its parent, so the unit is
 * read from its beginning, once for all queries of a unit, skipping every subtree without one.
 *
 * Not for two threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/xalloc.h"
#include "base/hash_index.h"
#include "symbol/dwarf_unit.h"

struct dwarf_name {
	const struct dwarf *dwarf; /* the DIE */
	uint64_t offset;
	const char *name;	 /* "" when there is none; borrowed from the sections */
	const char *linkage;	 /* "" when there is none */
	struct dwarf_unit *unit; /* of the last DIE that it refers to, the declaration */
	uint64_t place;
	uint32_t line;	  /* of the declaration; 0 when unknown */
	bool is_external; /* other files may call it */
};

struct dwarf_names {
	struct hash_index index;
	struct dwarf_name *names;
	size_t count, capacity;
	uint64_t pending; /* work that is still to be charged */
};

void dwarf_names_init(struct dwarf_names *names);
void dwarf_names_deinit(struct dwarf_names *names);

/* The name of the DIE at `offset` of the unit. */
struct dwarf_name dwarf_names_find(
	struct dwarf_names *names, struct dwarf_unit *unit, uint64_t offset);

struct dwarf_scope_query {
	struct dwarf_name name;
	const char **text; /* set to the full name; unchanged when that is the plain one */
};

/* Whether the name may be one of several parts: it has no linkage name, and is not of C. */
bool dwarf_scope_wanted(const struct dwarf_name *name);

/* Sorts the queries and answers them. The texts live as long as the arena. */
void dwarf_scope_qualify(struct dwarf_names *names, struct dwarf_scope_query *queries, size_t count,
	struct arena *arena);
