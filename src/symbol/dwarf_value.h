/* SPDX-License-Identifier: Apache-2.0 */
/* What the values in a unit's DIEs mean: texts, addresses, other DIEs. Any thread. */
#pragma once

#include "symbol/dwarf_unit.h"

/* "" when the value is absent or damaged. */
const char *dwarf_value_text(struct dwarf_unit *unit, const struct dwarf_value *value);
bool dwarf_value_address(
	struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *address);

/* The address at an index of the unit's part of .debug_addr. */
bool dwarf_indexed_address(struct dwarf_unit *unit, uint64_t index, uint64_t *address);

/* The DIE that a reference means, in this or another unit or file; false when there is none. */
bool dwarf_value_reference(struct dwarf_unit *unit, const struct dwarf_value *value,
	struct dwarf_unit **target, uint64_t *offset);
