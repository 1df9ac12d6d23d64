/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/smaps.h"

#include <stdlib.h>
#include <string.h>

#include "base/proc_maps.h"

enum { GUARD_MAX = 65536, ALLOCATOR_MIN = 1 << 20, HEAP_MAX = 64 << 20 };

enum use { USE_FILE, USE_SHARED, USE_STACK, USE_BREAK, USE_ANONYMOUS };

struct reader {
	struct smaps sums;
	enum use use;
	uint64_t resident; /* of the mapping that is being read */
	uint64_t anonymous;
	uint64_t size;
	bool is_unreserved, is_like_heap;
	uint64_t guard_limit; /* where the guard that was read last ends */
	uint64_t gib_limit;   /* one past the last range that was counted */
	uint64_t two_mib_limit;
};

static bool is_called(const struct proc_map *map, const char *name)
{
	return map->path_size == strlen(name) && memcmp(map->path, name, map->path_size) == 0;
}

static bool begins_with(const struct proc_map *map, const char *name)
{
	const size_t size = strlen(name);

	return map->path_size >= size && memcmp(map->path, name, size) == 0;
}

static void add_mapping(struct reader *reader)
{
	struct smaps *const sums = &reader->sums;
	const uint64_t own =
		reader->anonymous < reader->resident ? reader->anonymous : reader->resident;

	if (reader->is_unreserved && reader->use == USE_STACK)
		reader->use = USE_ANONYMOUS;
	switch (reader->use) {
	case USE_FILE:
		sums->file_data += own;
		sums->files += reader->resident - own;
		break;
	case USE_SHARED:
		sums->file_data += own;
		sums->shmem += reader->resident - own;
		break;
	case USE_STACK:
		sums->stacks += reader->resident;
		break;
	case USE_BREAK:
		sums->program_break += reader->resident;
		sums->program_break_size += reader->size;
		break;
	case USE_ANONYMOUS:
		sums->anonymous += reader->resident;
		if (reader->is_unreserved) {
			sums->unreserved_size += reader->size;
			sums->unreserved_resident += reader->resident;
		}
		if (reader->is_unreserved && reader->is_like_heap) {
			sums->heaps_size += reader->size;
			sums->heaps_resident += reader->resident;
			sums->heap_count++;
		}
		break;
	}
	sums->resident += reader->resident;
	reader->resident = reader->anonymous = 0;
	reader->is_unreserved = false;
}

/* Counts the ranges of 2^bits bytes that contain a part of a mapping and of no earlier one. */
static size_t count_ranges(const struct proc_map *map, unsigned bits, uint64_t *counted_limit)
{
	const uint64_t first = map->start >> bits, limit = ((map->limit - 1) >> bits) + 1;
	const uint64_t from = first > *counted_limit ? first : *counted_limit;

	if (limit <= from)
		return 0;
	*counted_limit = limit;
	return limit - from;
}

/* The names that the kernel gives to what is no file of a disk, and the folder of shm_open(3). */
static bool is_shared_memory(const struct proc_map *map)
{
	static const char *const names[] = { "/dev/zero", "/SYSV", "/memfd:", "/dev/shm/",
		"/run/shm/", "/anon_hugepage", "[anon_shmem" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (begins_with(map, names[i]))
			return true;
	}
	return false;
}

static void begin(struct reader *reader, const struct proc_map *map)
{
	const bool is_guard = !map->readable && !map->writable && !map->executable &&
			      map->path_size == 0 && map->limit - map->start <= GUARD_MAX;

	add_mapping(reader);
	reader->sums.mapping_count++;
	reader->size = map->limit - map->start;
	reader->is_like_heap =
		map->writable && map->start % HEAP_MAX == 0 && reader->size <= HEAP_MAX;
	if (is_called(map, "[heap]"))
		reader->use = USE_BREAK;
	else if (is_called(map, "[stack]") ||
		 (map->path_size == 0 && map->start == reader->guard_limit))
		reader->use = USE_STACK;
	else if (is_shared_memory(map))
		reader->use = USE_SHARED;
	else if (map->path_size != 0 && !begins_with(map, "[anon"))
		reader->use = USE_FILE;
	else
		reader->use = USE_ANONYMOUS;
	if (reader->use == USE_ANONYMOUS && map->writable &&
		map->limit - map->start >= ALLOCATOR_MIN) {
		reader->sums.gib_ranges += count_ranges(map, 30, &reader->gib_limit);
		reader->sums.two_mib_ranges += count_ranges(map, 21, &reader->two_mib_limit);
	}
	reader->guard_limit = is_guard ? map->limit : 0;
}

/* "Rss:     380 kB" */
static bool take_field(const char *line, size_t size, const char *name, uint64_t *bytes)
{
	const size_t length = strlen(name);
	char digits[24] = "";

	if (size <= length || memcmp(line, name, length) != 0)
		return false;
	const size_t left = size - length;
	memcpy(digits, line + length, left < sizeof digits ? left : sizeof digits - 1);
	*bytes = strtoull(digits, NULL, 10) * 1024;
	return true;
}

/* "VmFlags: rd wr mr mw me nr ": two letters each (proc(5)). */
static bool take_flags(const char *line, size_t size, bool *is_unreserved)
{
	static const char name[] = "VmFlags:", flag[] = " nr";
	const size_t length = sizeof name - 1;

	if (size < length || memcmp(line, name, length) != 0)
		return false;
	*is_unreserved = memmem(line + length, size - length, flag, sizeof flag - 1) != NULL;
	return true;
}

bool smaps_read(const char *text, size_t size, struct smaps *ret)
{
	struct reader reader = { .use = USE_ANONYMOUS };
	const char *const end = text + size;
	uint64_t swapped, huge;

	while (text < end) {
		const char *const newline = memchr(text, '\n', (size_t)(end - text));
		const size_t length = (size_t)((newline == NULL ? end : newline) - text);
		struct proc_map map;
		if (take_field(text, length, "Swap:", &swapped))
			reader.sums.swapped += swapped;
		else if (take_field(text, length, "AnonHugePages:", &huge) ||
			 take_field(text, length, "ShmemPmdMapped:", &huge) ||
			 take_field(text, length, "FilePmdMapped:", &huge))
			reader.sums.huge_pages += huge;
		else if (!take_field(text, length, "Rss:", &reader.resident) &&
			 !take_field(text, length, "Anonymous:", &reader.anonymous) &&
			 !take_flags(text, length, &reader.is_unreserved) &&
			 proc_map_parse(text, length, &map) && map.start < map.limit)
			begin(&reader, &map);
		text += length + 1;
	}
	add_mapping(&reader);
	*ret = reader.sums;
	return reader.sums.mapping_count != 0;
}
