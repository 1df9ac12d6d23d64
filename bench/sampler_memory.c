/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates 10,000 blocks of 64 KiB at 1,024 stacks of 10 to 20 frames, replaces each of them twice
 * on average, and waits for a line of input.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 10000, REPLACEMENTS = 20000, DEPTH = 10, BYTES = 64 * 1024 };

static void *volatile last;

static void allocate(unsigned stack, unsigned depth);

__attribute__((noinline)) static void left(unsigned stack, unsigned depth)
{
	allocate(stack, depth);
	__asm__ volatile("");
}

__attribute__((noinline)) static void right(unsigned stack, unsigned depth)
{
	allocate(stack, depth);
	__asm__ volatile("" ::: "memory");
}

/* Each bit of `stack` decides about a frame. */
__attribute__((noinline)) static void allocate(unsigned stack, unsigned depth)
{
	if (depth == DEPTH)
		last = malloc(BYTES);
	else if ((stack >> depth & 1) != 0)
		left(stack, depth + 1);
	else
		right(stack, depth + 1);
	__asm__ volatile("");
}

int main(void)
{
	static void *blocks[BLOCKS];
	uint32_t random = 1;

	for (unsigned i = 0; i < BLOCKS + REPLACEMENTS; i++) {
		random = random * 1664525 + 1013904223;
		const unsigned at = i < BLOCKS ? i : (random >> 8) % BLOCKS;
		free(blocks[at]);
		allocate(random >> 20, 0);
		blocks[at] = last;
	}
	puts("ready");
	fflush(stdout);
	return getchar() == EOF;
}
