/* SPDX-License-Identifier: Apache-2.0 */
/* Inlined calls in a loop's block, of which the compiler moves pieces apart. */
#include <stdlib.h>

static inline __attribute__((always_inline)) void *inner(int size)
{
	return malloc((size_t)size * 100);
}

static inline __attribute__((always_inline)) char *outer(int size)
{
	char *const memory = inner(size + 1);
	memory[0] = 1;
	return memory;
}

__attribute__((noinline)) long shapes_in_block(int count)
{
	long sum = 0;

	for (int i = 1; i < count; i++) {
		sum += (long)outer(i);
		sum += (long)malloc((size_t)i * 50 + 1);
	}
	return sum;
}

int main(int argc, char **argv)
{
	(void)argv;
	return (int)shapes_in_block(argc * 300);
}
