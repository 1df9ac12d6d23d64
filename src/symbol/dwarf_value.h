/* SPDX-License-Identifier: Apache-2.0 */
/* The values in a unit's DIEs: texts, addresses, ranges of addresses, other DIEs. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"
#include "symbol/dwarf_unit.h"

/* "" when the value is absent or damaged. */
const char *dwarf_value_text(struct dwarf_unit *unit, const struct dwarf_value *value);

/* The DIE that a reference means, in this or another unit or file; false when there is none. */
bool dwarf_value_reference(struct dwarf_unit *unit, const struct dwarf_value *value,
	struct dwarf_unit **target, uint64_t *offset);

struct dwarf_range {
	uint64_t start;
	uint64_t limit;
};

/*
 * Steps through the ranges of one DIE: one from low_pc to high_pc, or a list in .debug_ranges
 * (DWARF 2 to 4) or .debug_rnglists (5). Empty ranges, and those of code that the linker discarded,
 * are left out.
 */
struct dwarf_range_reader {
	struct dwarf_unit *unit;
	struct cursor in;
	uint64_t base;
	uint64_t entries; /* read so far */
	struct dwarf_range single;
	bool has_single;
	bool has_list;
};

/* `low_pc`, `high_pc` and `ranges` are the DIE's attributes; absent ones have form 0. */
void dwarf_range_begin(struct dwarf_range_reader *reader, struct dwarf_unit *unit,
	const struct dwarf_value *low_pc, const struct dwarf_value *high_pc,
	const struct dwarf_value *ranges);

/* False after the last. */
bool dwarf_range_next(struct dwarf_range_reader *reader, struct dwarf_range *range);
