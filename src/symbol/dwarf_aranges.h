/* SPDX-License-Identifier: Apache-2.0 */
/* .debug_aranges: which units have which ranges of addresses (DWARF 5, section 6.1.2). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

/* The ranges of one unit. */
struct dwarf_arange_set {
	uint64_t unit_offset; /* in .debug_info */
	unsigned address_bytes;
	struct cursor pairs;
};

/* The next set; false when there are no more. A set of another kind of machine has no ranges. */
bool dwarf_arange_set_next(struct cursor *in, struct dwarf_arange_set *set);

/* The next range of a set; false after the last. */
bool dwarf_arange_next(struct dwarf_arange_set *set, uint64_t *start, uint64_t *size);
