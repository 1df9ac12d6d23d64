/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

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
