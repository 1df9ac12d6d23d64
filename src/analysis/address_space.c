/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/address_space.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

/* Where a module of a certain build went. Each piece of anonymous memory is on its own. */
struct mapping_placement {
	uint32_t module;
	const char *path;
	const char *build_id;
	uint64_t anonymous_start;
	uint64_t base;
};

/* Room between modules, and what moved modules are aligned to. */
#define MOVED_ALIGNMENT UINT64_C(0x10000000)

void address_space_init(struct address_space *space, struct profile *out)
{
	*space = (struct address_space){ .out = out };
	module_table_init(&space->modules);
}

void address_space_deinit(struct address_space *space)
{
	module_table_deinit(&space->modules);
	free(space->placements);
}

static bool is_placed(const struct address_space *space, const struct mapping_placement *placement,
	const struct mapping_placement *wanted)
{
	if (placement->module != wanted->module ||
		placement->anonymous_start != wanted->anonymous_start)
		return false;
	return !space->modules.modules[wanted->module].differs ||
	       (strcmp(placement->path, wanted->path) == 0 &&
		       strcmp(placement->build_id, wanted->build_id) == 0);
}

static bool is_taken(const struct profile *profile, uint64_t start, uint64_t limit)
{
	for (size_t i = 0; i < profile->mapping_count; i++) {
		if (start < profile->mappings[i].limit && profile->mappings[i].start < limit)
			return true;
	}
	return false;
}

/* An address above everything, also above what the profiles themselves have. */
static uint64_t find_free(const struct profile *out, const struct profile *profile)
{
	uint64_t highest = 0;

	for (size_t i = 0; i < out->mapping_count; i++) {
		if (out->mappings[i].limit > highest)
			highest = out->mappings[i].limit;
	}
	for (size_t i = 0; i < profile->mapping_count; i++) {
		/* The kernel's page for system calls is at the very top. */
		if (profile->mappings[i].limit > highest &&
			profile->mappings[i].limit < UINT64_C(1) << 63)
			highest = profile->mappings[i].limit;
	}
	return (highest / MOVED_ALIGNMENT + 1) * MOVED_ALIGNMENT;
}

static bool is_part(const struct profile *profile, const struct module_place *places,
	uint32_t mapping, size_t other)
{
	if (other == mapping)
		return true;
	return profile->mappings[mapping].path[0] != '\0' &&
	       places[other].module == places[mapping].module &&
	       places[other].base == places[mapping].base;
}

/* Copies all mappings of the module, moved by `delta`. */
static void copy_mappings(struct address_space *space, const struct profile *profile,
	const struct module_place *places, uint32_t mapping, uint64_t delta)
{
	for (size_t i = 0; i < profile->mapping_count; i++) {
		if (!is_part(profile, places, mapping, i))
			continue;
		struct profile_mapping copy = profile->mappings[i];
		copy.start += delta;
		copy.limit += delta;
		profile_add_mapping(space->out, &copy);
	}
}

static uint64_t place(struct address_space *space, const struct profile *profile,
	const struct module_place *places, uint32_t mapping)
{
	uint64_t delta = 0;

	for (size_t i = 0; delta == 0 && i < profile->mapping_count; i++) {
		if (is_part(profile, places, mapping, i) &&
			is_taken(
				space->out, profile->mappings[i].start, profile->mappings[i].limit))
			delta = find_free(space->out, profile) - places[mapping].base;
	}
	copy_mappings(space, profile, places, mapping, delta);
	return places[mapping].base + delta;
}

uint64_t address_space_move(struct address_space *space, const struct profile *profile,
	const struct module_place *places, uint32_t mapping, uint64_t address)
{
	const struct profile_mapping *const from = &profile->mappings[mapping];
	struct mapping_placement wanted = {
		.module = places[mapping].module,
		.path = from->path,
		.build_id = from->build_id,
		.anonymous_start = from->path[0] == '\0' ? from->start : 0,
	};

	for (size_t i = 0; i < space->count; i++) {
		if (is_placed(space, &space->placements[i], &wanted))
			return space->placements[i].base + (address - places[mapping].base);
	}
	wanted.base = place(space, profile, places, mapping);
	space->placements = xgrow(
		space->placements, &space->capacity, space->count + 1, sizeof *space->placements);
	space->placements[space->count++] = wanted;
	return wanted.base + (address - places[mapping].base);
}
