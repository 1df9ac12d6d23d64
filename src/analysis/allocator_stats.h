/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's statistics by size class and by arena, read from malloc_stats_print's JSON: where
 * memory is held without being used.
 *
 * Words. *Fragmentation* of a small class is what its slabs hold beyond the objects in them.
 * *Dirty* pages of an arena were freed and are kept for reuse, *muzzy* ones were already offered to
 * the kernel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

struct size_class {
	uint64_t size;
	bool is_large;
	uint64_t objects;
	uint64_t allocated_bytes;
	uint64_t held_bytes; /* in slabs or extents */
};

struct arena_stats {
	unsigned index;
	uint64_t threads;
	uint64_t allocated_bytes;
	uint64_t active_bytes;
	uint64_t dirty_bytes, muzzy_bytes;
	uint64_t mapped_bytes, retained_bytes, resident_bytes;
};

struct allocator_stats {
	struct size_class *classes;
	size_t class_count;
	struct arena_stats *arenas;
	size_t arena_count;
};

/* The options of malloc_stats_print that leave out what is not read here. */
#define ALLOCATOR_STATS_CLASSES "/v1/stats?options=Ja"
#define ALLOCATOR_STATS_ARENAS "/v1/stats?options=Jmblxeh"

/* Adds the classes, or the arenas, that the document has. ERROR_INPUT when it is another one. */
MUST_CHECK bool allocator_stats_add_classes(
	struct allocator_stats *stats, const json_t *document, struct error *err);
MUST_CHECK bool allocator_stats_add_arenas(
	struct allocator_stats *stats, const json_t *document, struct error *err);
/*
 * The value that an option of the allocator has: "dirty_decay_ms:10000", "MALLOC_ARENA_MAX=2",
 * "glibc.malloc.arena_max=2"; its name where it has none.
 */
void allocator_stats_describe_option(
	const json_t *document, const char *option, char *text, size_t size);

void allocator_stats_deinit(struct allocator_stats *stats);
