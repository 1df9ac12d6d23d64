/* SPDX-License-Identifier: Apache-2.0 */
/* Sorted lists of addresses, as the readers of symbols are asked about: all of a module at once. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The position of the first address not below `vaddr`; `count` when there is none. */
static inline size_t vaddrs_lower_bound(const uint64_t *vaddrs, size_t count, uint64_t vaddr)
{
	size_t low = 0;

	while (count > 0) {
		const size_t half = count / 2;
		if (vaddrs[low + half] < vaddr) {
			low += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return low;
}
