/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls each entry of the allocator from a function that is named for it, so that a profile of it
 * is known to the byte: `KEPT` blocks of each are in use, the others were freed.
 *
 *	sampled_malloc [no-pvalloc]
 *
 * It says "ready", "kept" and "freed", and waits for a line each time.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT = 10, FREED = 5, SIZE = 1000 };

/* What the compiler must not leave out. */
static void *volatile kept[64][KEPT + FREED];
static int groups;

#define SITE __attribute__((noinline)) static

#define KEEP(name, expression, release)                     \
	SITE void site_##name(void)                         \
	{                                                   \
		const int group = groups++;                 \
		for (int i = 0; i < KEPT + FREED; i++)      \
			kept[group][i] = (expression);      \
		for (int i = KEPT; i < KEPT + FREED; i++) { \
			release((void *)kept[group][i]);    \
			kept[group][i] = NULL;              \
		}                                           \
	}

static void *by_posix_memalign(size_t alignment, size_t size)
{
	void *block = NULL;

	return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

/* Grows and shrinks, in place and not; the last size counts. */
static void *by_realloc(void)
{
	void *block = realloc(NULL, 10);

	for (size_t size = 100; size < 200000; size = size * 3 / 2)
		block = realloc(block, size);
	return realloc(block, SIZE);
}

/* A failure leaves the block as it was. */
static void *by_failed_realloc(void)
{
	void *const block = malloc(SIZE);
	volatile size_t too_much = (size_t)-1 / 4;
	void *const none = realloc(block, too_much);

	return none == NULL ? block : none;
}

KEEP(plain, malloc(SIZE), free)
KEEP(zeroed, calloc(10, SIZE / 10), free)
KEEP(resized, by_realloc(), free)
KEEP(unresized, by_failed_realloc(), free)
KEEP(resized_array, reallocarray(malloc(17), 10, SIZE / 10), free)
KEEP(aligned, aligned_alloc(64, SIZE + 24), free)
KEEP(aligned_old, memalign(256, SIZE), free)
KEEP(aligned_posix, by_posix_memalign(4096, SIZE), free)
KEEP(page, valloc(SIZE), free)
KEEP(pages, pvalloc(SIZE), free)
KEEP(large, malloc(SIZE * 1000), free)

SITE void *site_thread(void *argument)
{
	(void)argument;
	site_plain();
	return NULL;
}

static void wait_for_line(const char *word)
{
	char line[16];

	if (write(1, word, strlen(word)) < 0 || read(0, line, sizeof line) <= 0)
		exit(2);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	(void)argv;
	wait_for_line("ready\n");
	site_zeroed();
	site_resized();
	site_unresized();
	site_resized_array();
	site_aligned();
	site_aligned_old();
	site_aligned_posix();
	site_page();
	/* jemalloc has none, and what the C library allocated must not be freed by jemalloc. */
	if (argc == 1)
		site_pages();
	site_large();
	if (pthread_create(&thread, NULL, site_thread, NULL) != 0)
		return 1;
	pthread_join(thread, NULL);
	wait_for_line("kept\n");
	for (int group = 0; group < groups; group++) {
		for (int i = 0; i < KEPT; i++)
			free((void *)kept[group][i]);
	}
	wait_for_line("freed\n");
	return 0;
}
