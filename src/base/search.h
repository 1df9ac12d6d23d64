/* SPDX-License-Identifier: Apache-2.0 */
/* Binary search in sorted arrays, and which of their positions are taken. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * How many of `count` items have a key of at most `key`: the last of these is the one at or below
 * it. The items are of `size` bytes and have their keys, of uint64_t, at `offset`.
 */
static inline size_t search_count_up_to(
	const void *items, size_t count, size_t size, size_t offset, uint64_t key)
{
	const char *const bytes = items;
	size_t low = 0;

	while (count > 0) {
		const size_t half = count / 2;
		const void *const at = bytes + (low + half) * size + offset;
		if (*(const uint64_t *)at <= key) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low;
}

/* Sorted addresses, all of a module, as the readers of symbols take them. */

/* The position of the first address not below `vaddr`; `count` when there is none. */
static inline size_t vaddrs_lower_bound(const uint64_t *vaddrs, size_t count, uint64_t vaddr)
{
	return vaddr == 0 ? 0 : search_count_up_to(vaddrs, count, sizeof *vaddrs, 0, vaddr - 1);
}

/*
 * Positions that are taken one by one, the first claim of each counting: next[i] == i while `i` is
 * free; `count` is always. A taken one points to a later one, and chains are shortened as they are
 * followed, so that many claims to the same positions cost little each.
 */
static inline void vaddrs_free_all(uint32_t *next, size_t count)
{
	for (size_t i = 0; i <= count; i++)
		next[i] = (uint32_t)i;
}

/* The first free position from `i` on. */
static inline uint32_t vaddrs_first_free(uint32_t *next, uint32_t i)
{
	for (; next[i] != i; i = next[i])
		next[i] = next[next[i]];
	return i;
}

static inline void vaddrs_take(uint32_t *next, uint32_t i)
{
	next[i] = i + 1;
}
