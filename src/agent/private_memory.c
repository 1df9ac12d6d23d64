/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/private_memory.h"

#include <sys/mman.h>

static void *private_resize(
	const struct memory *memory, void *block, size_t old_size, size_t new_size)
{
	(void)memory;
	void *const moved = memory_resize(&memory_pages, block, old_size, new_size);

	/* Grown pages keep the advice; where the kernel has none, a child inherits them unused. */
	if (block == NULL && moved != NULL)
		madvise(moved, new_size, MADV_DONTFORK);
	return moved;
}

const struct memory memory_private = { .resize = private_resize };
