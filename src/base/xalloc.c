/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	HUGE_PAGE_BYTES = 2 * 1024 * 1024,
	MIN_ADVISED_BYTES = 2 * HUGE_PAGE_BYTES,
};

void *xcheck(void *block, size_t size)
{
	if (block == NULL) {
		fprintf(stderr, "heapctl: out of memory: %zu bytes requested\n", size);
		exit(1);
	}
	return block;
}

void *xmalloc(size_t size)
{
	return xcheck(malloc(size == 0 ? 1 : size), size);
}

void *xmalloc_huge(size_t size)
{
	if (size < HUGE_PAGE_BYTES)
		return xmalloc(size);
	void *const block = xcheck(aligned_alloc(HUGE_PAGE_BYTES, size), size);
	/* Advice: without such pages it is slower, no more. */
	madvise(block, size, MADV_HUGEPAGE);
	return block;
}

void *xcalloc(size_t count, size_t size)
{
	if (count == 0 || size == 0)
		count = size = 1;
	return xcheck(calloc(count, size), size);
}

void *xreallocarray(void *block, size_t count, size_t size)
{
	if (count == 0 || size == 0)
		count = size = 1;
	return xcheck(reallocarray(block, count, size), size);
}

/*
 * Asks for huge pages, for a block of malloc's: with ordinary ones a large array takes a quarter of
 * a million page faults for each gigabyte. The advice is for all pages that the block is on: given
 * for some of a mapping it would split it, and mremap() in realloc() takes none that is split.
 */
static void advise_huge(void *block, size_t size)
{
	const uintptr_t page = 4096;
	const uintptr_t begin = (uintptr_t)block & -page;
	const uintptr_t end = ((uintptr_t)block + size + page - 1) & -page;

	madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

void *xgrow_more(void *items, size_t *capacity, size_t needed, size_t size)
{
	size_t wanted = *capacity < 8 ? 16 : 2 * *capacity;

	if (wanted < needed)
		wanted = needed;
	items = xreallocarray(items, wanted, size);
	*capacity = wanted;
	if (wanted * size >= MIN_ADVISED_BYTES)
		advise_huge(items, wanted * size);
	return items;
}

char *xstrndup(const char *text, size_t size)
{
	return xcheck(strndup(text, size), size);
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xasprintf(const char *format, ...)
{
	char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	return xcheck(text, strlen(format));
}

static void *resize_or_exit(
	const struct memory *memory, void *block, size_t old_size, size_t new_size)
{
	(void)memory;
	(void)old_size;
	if (new_size == 0) {
		free(block);
		return NULL;
	}
	return xcheck(realloc(block, new_size), new_size);
}

const struct memory memory_or_exit = { .resize = resize_or_exit };

enum {
	FIRST_BLOCK_BYTES = 1024, /* there may be hundreds of arenas with little in them */
	MAX_BLOCK_BYTES = 1024 * 1024,
};

struct arena_block {
	struct arena_block *next;
	size_t size;
};

void arena_deinit(struct arena *arena)
{
	struct arena_block *next = NULL;

	for (struct arena_block *block = arena->blocks; block != NULL; block = next) {
		next = block->next;
		free(block);
	}
	arena_init(arena);
}

static void add_block(struct arena *arena, size_t needed)
{
	size_t size = arena->blocks == NULL ? FIRST_BLOCK_BYTES : 2 * arena->blocks->size;

	if (size > MAX_BLOCK_BYTES)
		size = MAX_BLOCK_BYTES;
	if (size < needed)
		size = needed;

	struct arena_block *const block = xmalloc(sizeof *block + size);
	*block = (struct arena_block){ .next = arena->blocks, .size = size };
	arena->blocks = block;
	arena->position = (char *)(block + 1);
	arena->end = arena->position + size;
}

void *arena_alloc(struct arena *arena, size_t size, size_t alignment)
{
	size_t padding = -(uintptr_t)arena->position & (alignment - 1);

	if (arena->position == NULL || size + padding > (size_t)(arena->end - arena->position)) {
		add_block(arena, size + alignment);
		padding = -(uintptr_t)arena->position & (alignment - 1);
	}

	char *const piece = arena->position + padding;
	arena->position = piece + size;
	arena->used_bytes += size;
	return piece;
}

char *arena_copy_text(struct arena *arena, const char *text, size_t size)
{
	char *const copy = arena_alloc(arena, size + 1, 1);

	if (size != 0)
		memcpy(copy, text, size);
	copy[size] = '\0';
	return copy;
}
