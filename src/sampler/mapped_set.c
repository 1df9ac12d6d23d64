/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/mapped_set.h"

#include <string.h>

#include "base/memory.h"

void mapped_set_init(struct mapped_set *set)
{
	*set = (struct mapped_set){ 0 };
}

void mapped_set_deinit(struct mapped_set *set)
{
	memory_resize(&memory_pages, set->ranges, mapped_set_bytes(set), 0);
	mapped_set_init(set);
}

/* The first range that ends behind the address. */
static size_t find(const struct mapped_set *set, uintptr_t address)
{
	size_t low = 0, high = set->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (set->ranges[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool grow(struct mapped_set *set)
{
	enum { RANGES_MIN = 256 };
	const size_t capacity = set->capacity == 0 ? RANGES_MIN : 2 * set->capacity;

	if (capacity > MAPPED_RANGES_MAX)
		return false;
	struct mapped_range *const ranges = memory_resize(
		&memory_pages, set->ranges, mapped_set_bytes(set), capacity * sizeof *ranges);
	if (ranges == NULL)
		return false;
	set->ranges = ranges;
	set->capacity = capacity;
	return true;
}

bool mapped_set_add(struct mapped_set *set, const struct mapped_range *range)
{
	if (set->count == set->capacity && !grow(set))
		return false;
	const size_t place = find(set, range->begin);
	memmove(set->ranges + place + 1, set->ranges + place,
		(set->count - place) * sizeof *set->ranges);
	set->ranges[place] = *range;
	set->count++;
	return true;
}

bool mapped_set_take(struct mapped_set *set, uintptr_t begin, uintptr_t end, uint64_t serial,
	struct mapped_range *range)
{
	for (size_t i = find(set, begin); i < set->count && set->ranges[i].begin < end; i++) {
		if (set->ranges[i].serial > serial)
			continue;
		*range = set->ranges[i];
		set->count--;
		memmove(set->ranges + i, set->ranges + i + 1,
			(set->count - i) * sizeof *set->ranges);
		return true;
	}
	return false;
}

void mapped_set_clear(struct mapped_set *set)
{
	set->count = 0;
}

size_t mapped_set_bytes(const struct mapped_set *set)
{
	return set->capacity * sizeof *set->ranges;
}
