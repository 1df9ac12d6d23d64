/* SPDX-License-Identifier: Apache-2.0 */
/* The answers for addresses of one unit, whose DIEs and line program are read once for all. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/xalloc.h"
#include "symbol/dwarf_split.h"
#include "symbol/dwarf_unit.h"

struct dwarf_frame {
	const char *name;    /* "" when unknown */
	const char *linkage; /* "" when there is none */
	const char *file;    /* "" when unknown */
	uint32_t line;	     /* 0 when unknown */
	uint32_t start_line; /* of the declaration; 0 when unknown */
};

/* The answer for an address. Outside of every function there may still be a file and a line. */
struct dwarf_answer {
	const struct dwarf_frame *frames; /* innermost first */
	uint32_t frame_count;
};

/*
 * Sorted addresses of a file. is_function[i] is true where a symbol says that the address is in
 * some function: then a slower search is worth it.
 */
struct dwarf_addresses {
	const uint64_t *vaddrs;
	const bool *is_function;
	size_t count;
};

/* The unit with the DIEs: the split one where there is one. */
struct dwarf_unit *dwarf_die_unit(struct dwarf_splits *splits, struct dwarf_unit *unit);

/*
 * Answers the addresses at `positions`, which are sorted and of this unit, in answers[i] for
 * positions[i]. Frames and texts live as long as the arena and the sections.
 */
void dwarf_unit_answer(struct dwarf_unit *unit, struct dwarf_splits *splits,
	const struct dwarf_addresses *addresses, const uint32_t *positions, size_t count,
	struct arena *arena, struct dwarf_answer *answers);
