/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is released all at once: an arena hands out pieces that live until it is deinited.
 * For the offline side; there is always memory (see xalloc.h). Not for two threads at once.
 */
#pragma once

#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *blocks; /* newest first */
	char *position;
	char *end;
	size_t used_bytes; /* handed out so far, for accounting */
};

static inline void arena_init(struct arena *arena)
{
	*arena = (struct arena){ 0 };
}

void arena_deinit(struct arena *arena);

/* `alignment` is a power of two. The memory is not cleared. */
void *arena_alloc(struct arena *arena, size_t size, size_t alignment)
	__attribute__((malloc, returns_nonnull));

/* A copy of `size` bytes with a NUL behind them. */
char *arena_copy_text(struct arena *arena, const char *text, size_t size)
	__attribute__((returns_nonnull));
