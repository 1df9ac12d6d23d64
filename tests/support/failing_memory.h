/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A memory that refuses the N-th request for more, for tests that sweep over every allocation:
 *
 *	for (unsigned nth = 1;; nth++) {
 *		struct failing_memory memory = failing_memory_at(nth);
 *		... use &memory.memory ...
 *		if (!memory.failed)
 *			break;
 *	}
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"

struct failing_memory {
	struct memory memory;
	unsigned count; /* requests for more until the one that fails */
	bool failed;
};

static inline void *failing_memory_resize(
	const struct memory *memory, void *block, size_t old_size, size_t new_size)
{
	struct failing_memory *const self = (struct failing_memory *)(uintptr_t)memory;

	if (new_size > old_size && self->count > 0 && --self->count == 0) {
		self->failed = true;
		return NULL;
	}
	return memory_resize(&memory_heap, block, old_size, new_size);
}

static inline struct failing_memory failing_memory_at(unsigned nth)
{
	return (struct failing_memory){ .memory = { .resize = failing_memory_resize },
		.count = nth };
}
