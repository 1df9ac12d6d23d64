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
	string_pool_deinit(&table->strings);
}

/* "libfoo-2.36" and "libfoo" before ".so": a version may stand on either side. */
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

	for (size_t i = 0; i < table->count; i++) {
		struct profile_module *const module = &table->modules[i];
		if (strcmp(module->identity, identity) != 0)
			continue;
		module->differs |= strcmp(module->path, mapping->path) != 0 ||
				   strcmp(module->build_id, mapping->build_id) != 0;
		return (uint32_t)i;
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
	return (uint32_t)table->count++;
}

/*
 * Offsets count from where the file's first byte is mapped. That is also right for linkers that
 * leave gaps between segments; without the first segment the file offset has to do.
 */
static uint64_t base_of(const struct profile *profile, size_t at)
{
	const struct profile_mapping *const mappings = profile->mappings;
	size_t first = at;

	while (first > 0 && mappings[first].file_offset != 0 &&
		strcmp(mappings[first - 1].path, mappings[at].path) == 0)
		first--;
	return mappings[at].path[0] != '\0' && mappings[first].file_offset == 0
		       ? mappings[first].start
		       : mappings[at].start - mappings[at].file_offset;
}

struct module_place *module_table_add(struct module_table *table, const struct profile *profile)
{
	struct module_place *const places = xcalloc(profile->mapping_count, sizeof *places);
	const char *const main_path = profile_main_path(profile);

	for (size_t i = 0; i < profile->mapping_count; i++) {
		places[i].module = find_or_add(table, &profile->mappings[i], main_path);
		places[i].base = base_of(profile, i);
	}
	return places;
}
