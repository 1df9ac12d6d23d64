/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/modules.h"

#include <ctype.h>
#include <inttypes.h>
#include <search.h>
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

static bool is_same_place(const void *places, uint32_t position, const void *key)
{
	const struct module_place *const place = (const struct module_place *)places + position;
	const struct module_place *const wanted = key;

	return place->module == wanted->module && place->base == wanted->base;
}

/* Each mapping of a file at one base leads to the next. */
static void chain_parts(const struct profile *profile, struct module_place *places)
{
	CLEANUP(hash_index_deinit) struct hash_index index = { 0 };
	CLEANUP(free_cleanup)
	uint32_t *last = xcalloc(profile->mapping_count, sizeof *last);

	hash_index_init(&index);
	for (uint32_t i = 0; i < profile->mapping_count; i++) {
		struct module_place *const place = &places[i];
		place->first_part = i;
		place->next_part = PROFILE_NONE;
		/* Each piece of anonymous memory is on its own. */
		if (profile->mappings[i].path[0] == '\0')
			continue;
		const uint32_t first = hash_index_add(&index,
			hash_combine(place->module, place->base), is_same_place, places, place, i);
		if (first == HASH_INDEX_NONE) {
			last[i] = i;
			continue;
		}
		place->first_part = first;
		places[last[first]].next_part = i;
		last[first] = i;
	}
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
	chain_parts(profile, places);
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

/* Addresses that a mapping of the common space covers. */
struct taken_range {
	uint64_t start, limit;
};

/* Ranges of the tree do not overlap; one that overlaps another counts as equal to it. */
static int compare_ranges(const void *a, const void *b)
{
	const struct taken_range *const left = a, *const right = b;

	return left->limit <= right->start ? -1 : left->start >= right->limit;
}

static struct taken_range *find_taken(
	const struct address_space *space, uint64_t start, uint64_t limit)
{
	const struct taken_range wanted = { start, limit };
	void *const node = start < limit ? tfind(&wanted, &space->taken, compare_ranges) : NULL;

	return node == NULL ? NULL : *(struct taken_range **)node;
}

/* Ranges that overlap become one: each is removed once, however many overlap. */
static void take_range(struct address_space *space, uint64_t start, uint64_t limit)
{
	struct taken_range *other;

	if (start >= limit)
		return;
	struct taken_range *const range = xmalloc(sizeof *range);
	*range = (struct taken_range){ start, limit };
	while ((other = find_taken(space, range->start, range->limit)) != NULL) {
		if (other->start < range->start)
			range->start = other->start;
		if (other->limit > range->limit)
			range->limit = other->limit;
		tdelete(other, &space->taken, compare_ranges);
		free(other);
	}
	/* The tree takes memory for its node. */
	xcheck(tsearch(range, &space->taken, compare_ranges), sizeof *range);
}

void address_space_init(struct address_space *space, struct profile *out)
{
	*space = (struct address_space){ .out = out };
	module_table_init(&space->modules);
	hash_index_init(&space->index);
}

void address_space_deinit(struct address_space *space)
{
	module_table_deinit(&space->modules);
	hash_index_deinit(&space->index);
	tdestroy(space->taken, free);
	free(space->placements);
}

static bool is_placed(const void *placements, uint32_t position, const void *key)
{
	const struct mapping_placement *const placement =
		(const struct mapping_placement *)placements + position;
	const struct mapping_placement *const wanted = key;

	return placement->module == wanted->module &&
	       placement->anonymous_start == wanted->anonymous_start &&
	       strcmp(placement->path, wanted->path) == 0 &&
	       strcmp(placement->build_id, wanted->build_id) == 0;
}

void module_append_place(struct buffer *out, const char *module, uint64_t address, uint64_t offset)
{
	if (module[0] == '\0')
		buffer_printf(out, "0x%" PRIx64, address);
	else
		buffer_printf(out, "[%s]+0x%" PRIx64, module, offset);
}

static uint64_t hash_placement(const struct mapping_placement *placement)
{
	return hash_combine(hash_combine(placement->module, placement->anonymous_start),
		hash_combine(hash_bytes(placement->path, strlen(placement->path)),
			hash_bytes(placement->build_id, strlen(placement->build_id))));
}

/* An address above everything, also above what the profiles themselves have. */
static uint64_t find_free(struct address_space *space, const struct profile *profile)
{
	for (size_t i = 0; space->profile != profile && i < profile->mapping_count; i++) {
		/* The kernel's page for system calls is at the very top. */
		if (profile->mappings[i].limit > space->highest &&
			profile->mappings[i].limit < UINT64_C(1) << 63)
			space->highest = profile->mappings[i].limit;
	}
	space->profile = profile;
	return (space->highest / MOVED_ALIGNMENT + 1) * MOVED_ALIGNMENT;
}

static void copy_mapping(
	struct address_space *space, const struct profile_mapping *mapping, uint64_t delta)
{
	struct profile_mapping copy = *mapping;

	copy.start += delta;
	copy.limit += delta;
	profile_add_mapping(space->out, &copy);
	take_range(space, copy.start, copy.limit);
	if (copy.limit > space->highest)
		space->highest = copy.limit;
}

/* Copies all mappings of the module, moved where one of them is taken. */
static uint64_t place(struct address_space *space, const struct profile *profile,
	const struct module_place *places, uint32_t mapping)
{
	const uint32_t first = places[mapping].first_part;
	uint64_t delta = 0;

	for (uint32_t i = first; delta == 0 && i != PROFILE_NONE; i = places[i].next_part) {
		const struct profile_mapping *const part = &profile->mappings[i];
		if (find_taken(space, part->start, part->limit) != NULL)
			delta = find_free(space, profile) - places[mapping].base;
	}
	for (uint32_t i = first; i != PROFILE_NONE; i = places[i].next_part)
		copy_mapping(space, &profile->mappings[i], delta);
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
	const uint32_t known = hash_index_add(&space->index, hash_placement(&wanted), is_placed,
		space->placements, &wanted, (uint32_t)space->count);

	if (known == HASH_INDEX_NONE) {
		wanted.base = place(space, profile, places, mapping);
		*XAPPEND(space->placements, space->count, space->capacity) = wanted;
	}
	return space->placements[known == HASH_INDEX_NONE ? space->count - 1 : known].base +
	       (address - places[mapping].base);
}
