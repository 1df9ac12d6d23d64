/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/site_table.h"

#include <string.h>

#include "base/memory.h"

enum {
	SITES_FIRST = 256,
	FRAMES_FIRST = 4096,
	INDEX_PER_SITE = 2,
};

void site_table_init(struct site_table *table, size_t bytes_max)
{
	*table = (struct site_table){ .bytes_max = bytes_max };
}

void site_table_deinit(struct site_table *table)
{
	memory_resize(&memory_pages, table->sites, table->capacity * sizeof *table->sites, 0);
	memory_resize(
		&memory_pages, table->frames, table->frame_capacity * sizeof *table->frames, 0);
	memory_resize(&memory_pages, table->index, table->index_size * sizeof *table->index, 0);
	site_table_init(table, table->bytes_max);
}

size_t site_table_bytes(const struct site_table *table)
{
	return table->capacity * sizeof *table->sites +
	       table->frame_capacity * sizeof *table->frames +
	       table->index_size * sizeof *table->index;
}

uint16_t site_size_class(uint64_t size)
{
	if (size < 16)
		return (uint16_t)size;
	const unsigned doubling = 63 - (unsigned)__builtin_clzll(size);
	/* Eight to a doubling, from the three bits behind the highest. */
	return (uint16_t)((doubling - 2) * 8 + ((size >> (doubling - 3)) & 7));
}

static uint64_t hash_of(void *const *frames, size_t frame_count, uint16_t size_class)
{
	uint64_t hash = size_class ^ UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < frame_count; i++) {
		hash = (hash ^ (uintptr_t)frames[i]) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	return hash;
}

static size_t next_capacity(size_t capacity, size_t first)
{
	return capacity == 0 ? first : capacity + capacity / 2;
}

static bool grow(
	const struct site_table *table, void **array, size_t *capacity, size_t item, size_t wanted)
{
	if (site_table_bytes(table) + (wanted - *capacity) * item > table->bytes_max)
		return false;
	/* Not in place: a sandbox of the program may forbid mremap, which its malloc does not use.
	 */
	void *const grown = memory_resize(&memory_pages, NULL, 0, wanted * item);
	if (grown == NULL)
		return false;
	if (*capacity > 0)
		memcpy(grown, *array, *capacity * item);
	memory_resize(&memory_pages, *array, *capacity * item, 0);
	*array = grown;
	*capacity = wanted;
	return true;
}

static bool is_at(const struct site_table *table, const struct site *site, uint64_t hash,
	void *const *frames, size_t frame_count, uint16_t size_class)
{
	return site->hash == hash && site->frame_count == frame_count &&
	       site->size_class == size_class &&
	       (frame_count == 0 || memcmp(&table->frames[site->frames], frames,
					    frame_count * sizeof *frames) == 0);
}

static void index_all(struct site_table *table)
{
	for (size_t i = 0; i < table->index_size; i++)
		table->index[i] = SITE_NONE;
	for (size_t i = 0; i < table->count; i++) {
		size_t slot = (size_t)table->sites[i].hash & (table->index_size - 1);
		while (table->index[slot] != SITE_NONE)
			slot = (slot + 1) & (table->index_size - 1);
		table->index[slot] = (uint32_t)i;
	}
}

/* Makes room for one more site with this number of frames. */
static bool make_room(struct site_table *table, size_t frame_count)
{
	while (table->frame_count + frame_count > table->frame_capacity) {
		if (!grow(table, __extension__(void **) & table->frames, &table->frame_capacity,
			    sizeof *table->frames,
			    next_capacity(table->frame_capacity, FRAMES_FIRST)))
			return false;
	}
	if (table->count == table->capacity &&
		!grow(table, __extension__(void **) & table->sites, &table->capacity,
			sizeof *table->sites, next_capacity(table->capacity, SITES_FIRST)))
		return false;
	if (table->capacity * INDEX_PER_SITE > table->index_size) {
		if (!grow(table, __extension__(void **) & table->index, &table->index_size,
			    sizeof *table->index,
			    table->index_size == 0 ? SITES_FIRST * INDEX_PER_SITE
						   : 2 * table->index_size))
			return false;
		index_all(table);
	}
	return true;
}

static uint32_t get(
	struct site_table *table, void *const *frames, size_t frame_count, uint16_t size_class)
{
	const uint64_t hash = hash_of(frames, frame_count, size_class);

	for (size_t slot = (size_t)hash; table->index_size != 0; slot++) {
		const uint32_t number = table->index[slot & (table->index_size - 1)];
		if (number == SITE_NONE)
			break;
		if (is_at(table, &table->sites[number], hash, frames, frame_count, size_class))
			return number;
	}
	if (!make_room(table, frame_count))
		return SITE_NONE;
	const uint32_t number = (uint32_t)table->count++;
	table->sites[number] = (struct site){ .hash = hash,
		.frames = (uint32_t)table->frame_count,
		.frame_count = (uint16_t)frame_count,
		.size_class = size_class };
	for (size_t i = 0; i < frame_count; i++)
		table->frames[table->frame_count++] = (uintptr_t)frames[i];
	size_t slot = (size_t)hash & (table->index_size - 1);
	while (table->index[slot] != SITE_NONE)
		slot = (slot + 1) & (table->index_size - 1);
	table->index[slot] = number;
	return number;
}

uint32_t site_table_get(
	struct site_table *table, void *const *frames, size_t frame_count, uint64_t size)
{
	return get(table, frames, frame_count, site_size_class(size));
}

/* What was allocated at removed sites, by size class. */
struct removed_totals {
	uint64_t blocks, bytes, temporary_blocks, temporary_bytes;
};

void site_table_compact(struct site_table *table, uint32_t *numbers)
{
	/* Not on the stack of the thread that allocates, which may be small. */
	static struct removed_totals removed[SITE_CLASSES];
	size_t kept = 0, frames_kept = 0;

	memset(removed, 0, sizeof removed);
	for (size_t i = 0; i < table->count; i++) {
		struct site site = table->sites[i];
		numbers[i] = SITE_NONE;
		if (site.live_blocks == 0 && site.frame_count != 0) {
			removed[site.size_class].blocks += site.all_blocks;
			removed[site.size_class].bytes += site.all_bytes;
			removed[site.size_class].temporary_blocks += site.temporary_blocks;
			removed[site.size_class].temporary_bytes += site.temporary_bytes;
			continue;
		}
		memmove(&table->frames[frames_kept], &table->frames[site.frames],
			site.frame_count * sizeof *table->frames);
		site.frames = (uint32_t)frames_kept;
		frames_kept += site.frame_count;
		numbers[i] = (uint32_t)kept;
		table->sites[kept++] = site;
	}
	table->count = kept;
	table->frame_count = frames_kept;
	index_all(table);
	for (unsigned size_class = 0; size_class < SITE_CLASSES; size_class++) {
		if (removed[size_class].blocks == 0)
			continue;
		const uint32_t number = get(table, NULL, 0, (uint16_t)size_class);
		if (number == SITE_NONE)
			continue;
		struct site *const site = &table->sites[number];
		site->all_blocks += removed[size_class].blocks;
		site->all_bytes += removed[size_class].bytes;
		site->temporary_blocks += removed[size_class].temporary_blocks;
		site->temporary_bytes += removed[size_class].temporary_bytes;
	}
}

void site_table_clear(struct site_table *table)
{
	table->count = 0;
	table->frame_count = 0;
	index_all(table);
}
