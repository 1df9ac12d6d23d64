/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the offline side, where running out is not something a caller can mend: the program
 * says so on stderr and exits with 1. Never include this from code that runs inside a server.
 * No object here is for two threads at once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/memory.h"

/* For buffers of the offline side. */
extern const struct memory memory_or_exit;

/* Initialises one: `CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;`. */
#define BUFFER_OR_EXIT                                       \
	{                                                    \
		.limit = SIZE_MAX, .memory = &memory_or_exit \
	}

/* `block`, which a function of the C library has allocated; ends the program where it is NULL. */
void *xcheck(void *block, size_t size) __attribute__((returns_nonnull));

/* Never NULL, not even for a size of 0. Free with free(). */
void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));

/*
 * The same for a large table that is read at random: its pages are huge where they can be, since
 * finding an ordinary page takes longer than the read. The size is a power of two.
 */
void *xmalloc_huge(size_t size) __attribute__((malloc, returns_nonnull));

void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *text, size_t size) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *format, ...) PRINTF_FORMAT(1, 2)
	__attribute__((malloc, returns_nonnull));

/* Resizes to count elements of size bytes; an overflowing product counts as no memory. */
void *xreallocarray(void *block, size_t count, size_t size) __attribute__((returns_nonnull));

void *xgrow_more(void *items, size_t *capacity, size_t needed, size_t size)
	__attribute__((returns_nonnull));

/*
 * Makes room for `needed` elements in the array `items` with `capacity` elements allocated, at
 * least doubling: `items = xgrow(items, &capacity, count + 1, sizeof *items)`.
 */
static inline void *xgrow(void *items, size_t *capacity, size_t needed, size_t size)
{
	return items != NULL && needed <= *capacity ? items
						    : xgrow_more(items, capacity, needed, size);
}

/*
 * Makes room in such an array for one more element, counts it, and returns where it goes:
 * `*XAPPEND(items, count, capacity) = item`. The item must not depend on the count.
 */
#define XAPPEND(items, count, capacity) \
	((items) = xgrow((items), &(capacity), (count) + 1, sizeof *(items)), &(items)[(count)++])

struct arena_block;

/* Memory that is released all at once: its pieces live until the arena is deinited. */
struct arena {
	struct arena_block *blocks; /* newest first */
	char *position;
	char *end;
	size_t used_bytes; /* allocated so far, for accounting */
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
