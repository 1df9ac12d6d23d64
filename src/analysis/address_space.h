/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One address space for the mappings of several profiles, for analysis/selection.h: modules keep
 * the place that they have in the first profile that has them, unless it is taken.
 */
#pragma once

#include "analysis/modules.h"

struct mapping_placement;

struct address_space {
	struct profile *out; /* gets the mappings */
	struct module_table modules;
	struct mapping_placement *placements;
	size_t count, capacity;
};

void address_space_init(struct address_space *space, struct profile *out);
void address_space_deinit(struct address_space *space);

/*
 * The address in the common space of an address that a mapping of the profile covers. `places` is
 * what module_table_add made of the profile.
 */
uint64_t address_space_move(struct address_space *space, const struct profile *profile,
	const struct module_place *places, uint32_t mapping, uint64_t address);
