/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings that were sampled and are still there, by address.
 *
 * A mapping may end in parts, so each is a range of addresses with the place of its first sampling
 * point: a part that is left is sampled if it contains a point. Ranges do not overlap. The caller's
 * lock guards everything. Memory is pages of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "sampler/live_set.h"

enum { MAPPED_RANGES_MAX = 65536 };

struct mapped_range {
	uintptr_t begin, end; /* [begin, end) */
	uintptr_t point;      /* the first sampling point in it */
	uint64_t serial;      /* of the call that mapped it; they increase */
	struct live_block what;
};

struct mapped_set {
	struct mapped_range *ranges; /* by address */
	size_t count, capacity;
};

/* Takes no memory yet. */
void mapped_set_init(struct mapped_set *set);
void mapped_set_deinit(struct mapped_set *set);

/* False without memory, or with MAPPED_RANGES_MAX. Overlaps none that is in the set. */
MUST_CHECK bool mapped_set_add(struct mapped_set *set, const struct mapped_range *range);

/*
 * Removes a range that overlaps [begin, end) and whose serial is at most `serial`. False when there
 * is none.
 */
bool mapped_set_take(struct mapped_set *set, uintptr_t begin, uintptr_t end, uint64_t serial,
	struct mapped_range *range);

void mapped_set_clear(struct mapped_set *set);

/* Bytes mapped. */
size_t mapped_set_bytes(const struct mapped_set *set);
