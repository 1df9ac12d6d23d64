/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/modules.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"

void module_table_init(struct module_table *table)
{
	*table = (struct module_table){ 0 };
	string_pool_init(&table->strings);
}

void module_table_deinit(struct module_table *table)
{
	free(table->modules);
	text_numbers_deinit(&table->identities);
	string_pool_deinit(&table->strings);
}

/* "libfoo-2.36" and "libfoo" before ".so": a version may be on either side. */
static const char *identity_of(struct module_table *table, const char *path, const char *main_path)
{
	if (path[0] != '\0' && strcmp(path, main_path) == 0)
		return string_pool_add(&table->strings, "");
	const char *const name = path_base_name(path);
	const char *const suffix = library_name_suffix(name);
	if (suffix == NULL)
		return string_pool_add(&table->strings, path[0] == '\0' ? "anon" : name);

	const char *end = suffix;
	for (const char *at = name; at < suffix; at++) {
		if (at[0] == '-' && isdigit((unsigned char)at[1])) {
			end = at;
			break;
		}
	}
	return string_pool_add_sized(&table->strings, name, (size_t)(end - name));
}

static uint32_t find_or_add(
	struct module_table *table, const struct profile_mapping *mapping, const char *main_path)
{
	const char *const identity = identity_of(table, mapping->path, main_path);

	const uint32_t at = text_numbers_add(&table->identities, identity);

	if (at < table->count) {
		struct profile_module *const module = &table->modules[at];
		module->differs |= strcmp(module->path, mapping->path) != 0 ||
				   strcmp(module->build_id, mapping->build_id) != 0;
		return at;
	}
	table->modules =
		xgrow(table->modules, &table->capacity, table->count + 1, sizeof *table->modules);
	table->modules[table->count] = (struct profile_module){
		.identity = identity,
		.name = string_pool_add(&table->strings,
			mapping->path[0] == '\0' ? "anon" : path_base_name(mapping->path)),
		.path = string_pool_add(&table->strings, mapping->path),
		.build_id = string_pool_add(&table->strings, mapping->build_id),
	};
	table->count++;
	return at;
}

/* Whether the mapping before it is of the same file, and of an earlier part. */
static bool continues_file(const struct profile *profile, size_t at)
{
	const struct profile_mapping *const mappings = profile->mappings;

	return at > 0 && mappings[at].file_offset != 0 &&
	       strcmp(mappings[at - 1].path, mappings[at].path) == 0;
}

/*
 * Offsets count from where the file's first byte is mapped. That is also right for linkers that
 * leave gaps between segments; without the first segment the file offset has to do.
 */
static uint64_t base_of(const struct profile *profile, size_t first, size_t at)
{
	const struct profile_mapping *const mappings = profile->mappings;

	return mappings[at].path[0] != '\0' && mappings[first].file_offset == 0
		       ? mappings[first].start
		       : mappings[at].start - mappings[at].file_offset;
}

struct module_place *module_table_add(struct module_table *table, const struct profile *profile)
{
	struct module_place *const places = xcalloc(profile->mapping_count, sizeof *places);
	const char *const main_path = profile_main_path(profile);
	size_t first = 0;

	for (size_t i = 0; i < profile->mapping_count; i++) {
		first = continues_file(profile, i) ? first : i;
		places[i].module = find_or_add(table, &profile->mappings[i], main_path);
		places[i].base = base_of(profile, first, i);
	}
	return places;
}

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
			profile_is_mapped(
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
	*XAPPEND(space->placements, space->count, space->capacity) = wanted;
	return wanted.base + (address - places[mapping].base);
}
