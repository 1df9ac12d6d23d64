/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose heap is known to the byte: it allocates from functions with known names, some of
 * them inlined, and writes a profile whenever a file is named.
 *
 *	store FILE [FILE]	the second after more was allocated
 */
#include <stdio.h>
#include <stdlib.h>

#include <jemalloc/jemalloc.h>

static void *volatile kept[64];
static size_t count;

__attribute__((always_inline)) static inline void *make_node(size_t size)
{
	return malloc(size);
}

__attribute__((noinline)) static void load_index(void)
{
	kept[count++] = make_node(4096);
}

__attribute__((noinline)) static void load_table(void)
{
	for (int i = 0; i < 3; i++)
		kept[count++] = malloc(8192);
}

__attribute__((noinline)) static void load(void)
{
	load_index();
	load_table();
	/* Not the last call, so that it stays a call. */
	kept[63] = NULL;
}

static int dump(const char *path)
{
	return mallctl("prof.dump", NULL, NULL, &path, sizeof path);
}

int main(int argc, char **argv)
{
	load();
	if (argc > 1 && dump(argv[1]) != 0)
		return 1;
	load();
	return argc > 2 ? dump(argv[2]) : 0;
}
