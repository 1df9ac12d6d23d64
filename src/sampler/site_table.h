/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was sampled, by site: a stack of return addresses and a size class.
 *
 * Blocks of one stack are divided by their size class, so that a line of the profile has
 * blocks of nearly one size and can be scaled by their mean (analysis/unsample.h); there are eight
 * classes in each doubling. Its counters are of the samples, not scaled.
 *
 * The caller's lock guards everything. Memory is pages of its own, up to a limit. Beyond it a
 * sample gets no site, until the caller makes room: site_table_compact().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

enum {
	SITE_FRAMES_MAX = 128, /* as jemalloc's */
	SITE_CLASSES = 496,    /* of sizes */
};

#define SITE_NONE UINT32_MAX

struct site {
	uint64_t hash;
	uint64_t live_blocks, live_bytes;
	uint64_t all_blocks, all_bytes;		    /* since the start or the last clear */
	uint64_t temporary_blocks, temporary_bytes; /* of these, freed soon: sampler.h */
	uint32_t frames;			    /* where they begin among all frames */
	uint16_t frame_count;
	uint16_t size_class;
};

struct site_table {
	size_t bytes_max; /* of all memory of the table */
	struct site *sites;
	size_t count, capacity;
	uintptr_t *frames;
	size_t frame_count, frame_capacity;
	uint32_t *index; /* SITE_NONE: free */
	size_t index_size;
};

/* Takes no memory yet. */
void site_table_init(struct site_table *table, size_t bytes_max);

/* Gives its memory back; it is as after site_table_init(). */
void site_table_deinit(struct site_table *table);

/* The class of a size in bytes. */
uint16_t site_size_class(uint64_t size);

/* The site's number; a new one when it is the first sample there. SITE_NONE: no memory, or the
 * limit is reached. */
uint32_t site_table_get(
	struct site_table *table, void *const *frames, size_t frame_count, uint64_t size);

/* Bytes mapped. */
size_t site_table_bytes(const struct site_table *table);

/*
 * Removes the sites without live blocks and adds what was allocated there to sites without a
 * stack, so that the totals stay. The other sites move: `numbers`, with room for `table->count`,
 * gets the new number of each. Takes time in proportion to all sites.
 */
void site_table_compact(struct site_table *table, uint32_t *numbers);

/* Forgets all sites; their numbers begin again with 0. */
void site_table_clear(struct site_table *table);
