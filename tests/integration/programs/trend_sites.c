/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps of 256 sites of which none grows, sampled by the real profiler again and again:
 *
 *	trend_sites FOLDER REPLICATES PROFILES SEED
 *
 * writes FOLDER/REPLICATE-ROUND.heap. Site number n has 16 * 2^(n % 8) objects of 128 bytes, and
 * replaces none, a tenth, half or all of them in a round, by n / 64.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <jemalloc/jemalloc.h>

#include "random_numbers.h"

enum { SITES = 256, MOST = 2048, OBJECT_BYTES = 128 };

static void *blocks[SITES][MOST];

/* A function for each site: the call differs, so that no two are folded into one. */
#define SITE(n)                                               \
	__attribute__((noinline)) static void *site_##n(void) \
	{                                                     \
		void *volatile block = malloc(OBJECT_BYTES);  \
		return block;                                 \
	}
#define SITES_4(n) SITE(n##0) SITE(n##1) SITE(n##2) SITE(n##3)
#define SITES_16(n) SITES_4(n##0) SITES_4(n##1) SITES_4(n##2) SITES_4(n##3)
#define SITES_64(n) SITES_16(n##0) SITES_16(n##1) SITES_16(n##2) SITES_16(n##3)
SITES_64(0)
SITES_64(1)
SITES_64(2)
SITES_64(3)

#define NAMES_4(n) site_##n##0, site_##n##1, site_##n##2, site_##n##3,
#define NAMES_16(n) NAMES_4(n##0) NAMES_4(n##1) NAMES_4(n##2) NAMES_4(n##3)
#define NAMES_64(n) NAMES_16(n##0) NAMES_16(n##1) NAMES_16(n##2) NAMES_16(n##3)
static void *(*const sites[SITES])(void) = { NAMES_64(0) NAMES_64(1) NAMES_64(2) NAMES_64(3) };

static size_t size_of(size_t site)
{
	return (size_t)16 << site % 8;
}

static void live(void)
{
	static const double replaced[] = { 0, 0.1, 0.5, 1 };

	for (size_t site = 0; site < SITES; site++) {
		for (size_t i = 0; i < size_of(site); i++) {
			void **const block = &blocks[site][i];
			if (*block != NULL && chance() >= replaced[site / 64])
				continue;
			free(*block);
			*block = sites[site]();
		}
	}
}

static void end(void)
{
	for (size_t site = 0; site < SITES; site++) {
		for (size_t i = 0; i < size_of(site); i++) {
			free(blocks[site][i]);
			blocks[site][i] = NULL;
		}
	}
}

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	random_state = strtoull(argv[4], NULL, 10) * 2 + 1;
	for (int replicate = 0; replicate < atoi(argv[2]); replicate++) {
		for (int round = 0; round < atoi(argv[3]); round++) {
			char path[4096];
			const char *name = path;
			live();
			snprintf(path, sizeof path, "%s/%d-%04d.heap", argv[1], replicate, round);
			if (mallctl("prof.dump", NULL, NULL, &name, sizeof name) != 0)
				return 1;
		}
		end();
	}
	return 0;
}
