/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that never calls free(). It calls malloc() only with CALLS_MALLOC; with HAS_PREFIX it
 * has an allocator of its own that has no other names than those of a jemalloc with a prefix.
 * Prints "ready", and ends after a byte of input. Nothing in it has the linker take free() from a
 * static C library.
 */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef HAS_PREFIX
static char memory[4096];
static size_t used;

__attribute__((noinline)) void *je_malloc(size_t size)
{
	void *const block = memory + used % (sizeof memory / 2);

	used += size;
	return block;
}

__attribute__((noinline)) void je_free(void *block)
{
	if (block == memory + used)
		used = 0;
}
#endif

/* The compiler leaves out a block that nothing can see. */
static char *volatile block;

int main(void)
{
	char byte;

#ifdef CALLS_MALLOC
	block = malloc(100);
#endif
#ifdef HAS_PREFIX
	block = je_malloc(100);
	je_free(block);
#endif
	return write(STDOUT_FILENO, "ready\n", 6) == 6 && read(STDIN_FILENO, &byte, 1) == 1 ? 0 : 1;
}
