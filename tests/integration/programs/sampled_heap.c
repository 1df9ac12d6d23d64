/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps that are known to the byte, sampled by the real profiler again and again: each round
 * allocates the same objects, dumps, and frees them.
 *
 *	sampled_heap FOLDER ROUNDS	writes FOLDER/0.heap ...; prints "SITE OBJECTS BYTES" lines
 */
#include <stdio.h>
#include <stdlib.h>

#include <jemalloc/jemalloc.h>

enum { MOST = 4000 };

static void *volatile kept[MOST];
static size_t count;

/* Usable sizes are what the profiler sees. */
static size_t bytes;

static void keep(void *block)
{
	bytes += malloc_usable_size(block);
	kept[count++] = block;
}

#define SITE __attribute__((noinline)) static void

SITE site_small(void)
{
	for (int i = 0; i < 3000; i++)
		keep(malloc(64));
}

SITE site_few(void)
{
	for (int i = 0; i < 40; i++)
		keep(malloc(1024));
}

SITE site_large(void)
{
	for (int i = 0; i < 100; i++)
		keep(malloc(8192));
}

SITE site_mixed(void)
{
	for (int i = 0; i < 600; i++)
		keep(malloc((size_t)(16 + i % 16 * 128)));
}

static const struct {
	const char *name;
	void (*run)(void);
} sites[] = {
	{ "site_small", site_small },
	{ "site_few", site_few },
	{ "site_large", site_large },
	{ "site_mixed", site_mixed },
};

static void run_round(int round, const char *folder)
{
	char path[4096];
	const char *name = path;

	for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++) {
		const size_t before = count;
		bytes = 0;
		sites[i].run();
		if (round == 0)
			printf("%s %zu %zu\n", sites[i].name, count - before, bytes);
	}
	snprintf(path, sizeof path, "%s/%d.heap", folder, round);
	if (mallctl("prof.dump", NULL, NULL, &name, sizeof name) != 0)
		exit(1);
	while (count > 0)
		free(kept[--count]);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	for (int round = 0; round < atoi(argv[2]); round++)
		run_round(round, argv[1]);
	return 0;
}
