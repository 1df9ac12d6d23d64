/* SPDX-License-Identifier: Apache-2.0 */
/* Binary search in an array that is sorted by an integer of each item. */
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
