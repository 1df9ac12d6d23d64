/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function's DIE is called. The DIE of code mostly refers to another one that has the name:
 * an inlined call to the abstract function, that to its declaration, also in other units or in the
 * file that dwz made. Names are remembered by DIE, since one function is inlined in many places.
 * Not for two threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
