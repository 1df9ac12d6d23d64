/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/allocator_stats.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

static uint64_t number(const json_t *object, const char *key)
{
	const json_int_t value = json_integer_value(json_object_get(object, key));

	return value < 0 ? 0 : (uint64_t)value;
}

static const json_t *jemalloc_of(const json_t *document, struct error *err)
{
	const json_t *const jemalloc = json_object_get(document, "jemalloc");

	if (json_is_object(jemalloc))
		return jemalloc;
	error_set(err, ERROR_INPUT, "not statistics of jemalloc");
	error_hint(err, "for other allocators, use heapctl account");
	return NULL;
}

static struct size_class *add_class(struct allocator_stats *stats)
{
	/* Once for each of at most a few hundred classes. */
	stats->classes =
		xreallocarray(stats->classes, stats->class_count + 1, sizeof *stats->classes);
	return &stats->classes[stats->class_count++];
}

static void add_small(struct allocator_stats *stats, const json_t *shapes, const json_t *bins)
{
	for (size_t i = 0; i < json_array_size(shapes) && i < json_array_size(bins); i++) {
		const json_t *const shape = json_array_get(shapes, i);
		const json_t *const bin = json_array_get(bins, i);
		const uint64_t size = number(shape, "size");
		const uint64_t objects = number(bin, "curregs");
		*add_class(stats) = (struct size_class){
			.size = size,
			.objects = objects,
			.allocated_bytes = objects * size,
			.held_bytes = number(bin, "curslabs") * number(shape, "slab_size"),
		};
	}
}

static void add_large(struct allocator_stats *stats, const json_t *shapes, const json_t *extents)
{
	for (size_t i = 0; i < json_array_size(shapes) && i < json_array_size(extents); i++) {
		const uint64_t size = number(json_array_get(shapes, i), "size");
		const uint64_t objects = number(json_array_get(extents, i), "curlextents");
		*add_class(stats) = (struct size_class){
			.size = size,
			.is_large = true,
			.objects = objects,
			.allocated_bytes = objects * size,
			.held_bytes = objects * size,
		};
	}
}

bool allocator_stats_add_classes(
	struct allocator_stats *stats, const json_t *document, struct error *err)
{
	const json_t *const jemalloc = jemalloc_of(document, err);
	if (jemalloc == NULL)
		return false;
	const json_t *const shapes = json_object_get(jemalloc, "arenas");
	const json_t *const merged =
		json_object_get(json_object_get(jemalloc, "stats.arenas"), "merged");

	add_small(stats, json_object_get(shapes, "bin"), json_object_get(merged, "bins"));
	add_large(stats, json_object_get(shapes, "lextent"), json_object_get(merged, "lextents"));
	return true;
}

static void add_arena(
	struct allocator_stats *stats, const char *index, const json_t *arena, uint64_t page)
{
	stats->arenas = xreallocarray(stats->arenas, stats->arena_count + 1, sizeof *stats->arenas);
	stats->arenas[stats->arena_count++] = (struct arena_stats){
		.index = (unsigned)strtoul(index, NULL, 10),
		.threads = number(arena, "nthreads"),
		.allocated_bytes = number(json_object_get(arena, "small"), "allocated") +
				   number(json_object_get(arena, "large"), "allocated"),
		.active_bytes = number(arena, "pactive") * page,
		.dirty_bytes = number(arena, "pdirty") * page,
		.muzzy_bytes = number(arena, "pmuzzy") * page,
		.mapped_bytes = number(arena, "mapped"),
		.retained_bytes = number(arena, "retained"),
		.resident_bytes = number(arena, "resident"),
	};
}

bool allocator_stats_add_arenas(
	struct allocator_stats *stats, const json_t *document, struct error *err)
{
	const json_t *const jemalloc = jemalloc_of(document, err);
	if (jemalloc == NULL)
		return false;
	const uint64_t page = number(json_object_get(jemalloc, "arenas"), "page");
	json_t *const arenas = json_object_get(jemalloc, "stats.arenas");
	const char *key;
	json_t *arena;

	json_object_foreach(arenas, key, arena)
	{
		/* Beside the numbered ones there are "merged" and "destroyed". */
		if (*key >= '0' && *key <= '9')
			add_arena(stats, key, arena, page);
	}
	return true;
}

/* "MALLOC_ARENA_MAX" is glibc.malloc.arena_max among the tunables. */
static void tunable_of(const char *option, char *name, size_t size)
{
	static const char prefix[] = "MALLOC_";
	size_t length;

	if (strncmp(option, prefix, sizeof prefix - 1) != 0) {
		snprintf(name, size, "%s", option);
		return;
	}
	snprintf(name, size, "glibc.malloc.%s", option + sizeof prefix - 1);
	for (length = 0; name[length] != '\0'; length++)
		name[length] = (char)tolower((unsigned char)name[length]);
	if (name[length - 1] == '_')
		name[length - 1] = '\0';
}

/* By an environment variable, or by one of the tunables in GLIBC_TUNABLES ("a=1:b=2"). */
static void describe_variable(const json_t *options, const char *option, char *text, size_t size)
{
	const char *const value = json_string_value(json_object_get(options, option));
	const char *at = json_string_value(json_object_get(options, "GLIBC_TUNABLES"));
	char name[64];

	snprintf(text, size, "%s", option);
	if (value != NULL)
		snprintf(text, size, "%s=%s", option, value);
	tunable_of(option, name, sizeof name);
	for (const size_t length = strlen(name); at != NULL; at = strchr(at, ':')) {
		at += *at == ':';
		if (strncmp(at, name, length) == 0 && at[length] == '=')
			snprintf(text, size, "%.*s", (int)strcspn(at, ":"), at);
	}
}

void allocator_stats_describe_option(
	const json_t *document, const char *option, char *text, size_t size)
{
	const json_t *const variables =
		json_object_get(json_object_get(document, "malloc"), "options");
	if (variables != NULL) {
		describe_variable(variables, option, text, size);
		return;
	}
	const json_t *const value = json_object_get(
		json_object_get(json_object_get(document, "jemalloc"), "opt"), option);

	if (json_is_boolean(value))
		snprintf(text, size, "%s:%s", option, json_is_true(value) ? "true" : "false");
	else if (json_is_integer(value))
		snprintf(text, size, "%s:%lld", option, (long long)json_integer_value(value));
	else if (json_is_string(value))
		snprintf(text, size, "%s:%s", option, json_string_value(value));
	else
		snprintf(text, size, "%s", option);
}

void allocator_stats_deinit(struct allocator_stats *stats)
{
	free(stats->classes);
	free(stats->arenas);
	*stats = (struct allocator_stats){ 0 };
}
