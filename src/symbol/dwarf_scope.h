/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Full names of functions that have no linkage name: gcc writes none for functions of anonymous
 * namespaces, for static ones, and for those of classes inside functions. Their names are put
 * together from the names of what is around their DIEs: "(anonymous namespace)::Table::insert".
 *
 * A DIE does not refer to what is around it, so that a unit is read from its beginning. That is
 * done once for all functions of a unit that are asked about, past everything without one of them.
 */
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "symbol/dwarf_name.h"

/* A function that is asked about. */
struct dwarf_scope_query {
	struct dwarf_name name;
	const char **text; /* where the full name goes; stays as it is when that is the plain one */
};

/* Whether the name may be one of several parts: it has no linkage name, and is not of C. */
bool dwarf_scope_wanted(const struct dwarf_name *name);

/* Sorts the queries and answers them. The texts live as long as the arena. */
void dwarf_scope_qualify(struct dwarf_names *names, struct dwarf_scope_query *queries, size_t count,
	struct arena *arena);
