/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) & ~(page - 1);
}

static void *pages_resize(
	const struct memory *memory, void *block, size_t old_size, size_t new_size)
{
	(void)memory;
	const size_t old_length = whole_pages(old_size);
	const size_t new_length = whole_pages(new_size);

	if (new_length < new_size)
		return NULL;
	if (new_length == 0) {
		if (block != NULL)
			munmap(block, old_length);
		return NULL;
	}
	if (new_length == old_length)
		return block;

	void *const moved = block == NULL ? mmap(NULL, new_length, PROT_READ | PROT_WRITE,
						    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
					  : mremap(block, old_length, new_length, MREMAP_MAYMOVE);
	return moved == MAP_FAILED ? NULL : moved;
}

static void *private_resize(
	const struct memory *memory, void *block, size_t old_size, size_t new_size)
{
	void *const moved = pages_resize(memory, block, old_size, new_size);

	/* Grown pages keep the advice; where the kernel has none, a child inherits them unused. */
	if (block == NULL && moved != NULL)
		madvise(moved, new_size, MADV_DONTFORK);
	return moved;
}

static void *heap_resize(const struct memory *memory, void *block, size_t old_size, size_t new_size)
{
	(void)memory;
	(void)old_size;
	if (new_size == 0) {
		free(block);
		return NULL;
	}
	return realloc(block, new_size);
}

const struct memory memory_pages = { .resize = pages_resize };
const struct memory memory_private = { .resize = private_resize };
const struct memory memory_heap = { .resize = heap_resize };
