/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a file at which the answer for an address may change: where functions, inlined
 * calls, rows of line programs, units and symbols begin and end. What is found for one of them is
 * true up to the next one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/xalloc.h"

enum { BOUNDARY_WORK = 16 }; /* of a budget, for each that a file names: it costs memory, too */

struct boundaries {
	uint64_t *vaddrs;
	size_t count, capacity;
};

static inline void boundaries_deinit(struct boundaries *boundaries)
{
	free(boundaries->vaddrs);
}

static inline void boundaries_add(struct boundaries *boundaries, uint64_t vaddr)
{
	*XAPPEND(boundaries->vaddrs, boundaries->count, boundaries->capacity) = vaddr;
}

static inline int boundaries_compare(const void *a, const void *b)
{
	const uint64_t left = *(const uint64_t *)a;
	const uint64_t right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* Sorts them and leaves each once. */
static inline void boundaries_sort(struct boundaries *boundaries)
{
	size_t kept = 0;

	if (boundaries->count == 0)
		return;
	qsort(boundaries->vaddrs, boundaries->count, sizeof *boundaries->vaddrs,
		boundaries_compare);
	for (size_t i = 1; i < boundaries->count; i++)
		if (boundaries->vaddrs[i] != boundaries->vaddrs[kept])
			boundaries->vaddrs[++kept] = boundaries->vaddrs[i];
	boundaries->count = kept + 1;
}
