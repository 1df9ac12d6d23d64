/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps with known growth, sampled by the real profiler again and again: each replicate begins
 * with nothing, lives through PROFILES rounds with a dump after each, and frees all.
 *
 *	trend_heap FOLDER REPLICATES PROFILES LEAK_BYTES SEED [shapes | kinds]
 *
 * writes FOLDER/REPLICATE-ROUND.heap. A round's leak is LEAK_BYTES in objects of 128 bytes. With
 * "shapes" there is also one step, and a queue that fills and empties every four rounds; with
 * "kinds" a site half of which stays, one that loses LEAK_BYTES below what it turns over, one that
 * turns over a sixteenth, one that turns over half at once and half slowly, and a few small ones.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jemalloc/jemalloc.h>

#include "random_numbers.h"

enum { MOST = 65536 };

struct site {
	void *blocks[MOST];
	size_t count;
};

static struct site statics, fast, slow, noisy, leak, step, cycle, half, busy, busy_leak, slowest,
	mixed, few;

#define SITE __attribute__((noinline)) static void

SITE site_static(void)
{
	while (statics.count < 2000)
		statics.blocks[statics.count++] = malloc(512);
}

SITE site_fast(void)
{
	for (size_t i = 0; i < 1000; i++) {
		free(fast.blocks[i]);
		fast.blocks[i] = malloc(1024);
	}
	fast.count = 1000;
}

SITE site_slow(void)
{
	for (size_t i = 0; i < 4000; i++) {
		if (slow.count != 0 && chance() > 0.2)
			continue;
		free(slow.blocks[i]);
		slow.blocks[i] = malloc(256);
	}
	slow.count = 4000;
}

SITE site_noisy(void)
{
	const size_t wanted = 1600 + (size_t)(chance() * 800);

	while (noisy.count > 0)
		free(noisy.blocks[--noisy.count]);
	while (noisy.count < wanted)
		noisy.blocks[noisy.count++] = malloc(512);
}

SITE site_leak(size_t bytes)
{
	for (size_t i = 0; i < bytes / 128 && leak.count < MOST; i++)
		leak.blocks[leak.count++] = malloc(128);
}

SITE site_step(int round, int rounds)
{
	while (step.count < (size_t)(round < rounds / 2 ? 500 : 2500))
		step.blocks[step.count++] = malloc(512);
}

SITE site_cycle(int round)
{
	while (cycle.count > 0)
		free(cycle.blocks[--cycle.count]);
	while (cycle.count < (size_t)(400 + round % 4 * 800))
		cycle.blocks[cycle.count++] = malloc(512);
}

/*
 * Replaces each of `count` objects with this chance; a macro, so that the site's own name is seen.
 */
#define TURN_OVER(site, from, many, bytes, replaced)                             \
	do {                                                                     \
		for (size_t i_ = (from); i_ < (size_t)(from) + (many); i_++) {   \
			if ((site).blocks[i_] != NULL && chance() >= (replaced)) \
				continue;                                        \
			free((site).blocks[i_]);                                 \
			(site).blocks[i_] = malloc(bytes);                       \
		}                                                                \
		(site).count = (size_t)(from) + (many);                          \
	} while (0)

SITE site_half(void)
{
	TURN_OVER(half, 0, 1000, 512, 0);
	TURN_OVER(half, 1000, 1000, 512, 1);
}

SITE site_slowest(void)
{
	TURN_OVER(slowest, 0, 2000, 512, 1.0 / 16);
}

SITE site_mixed(void)
{
	TURN_OVER(mixed, 0, 1000, 512, 1);
	TURN_OVER(mixed, 1000, 1000, 512, 0.1);
}

SITE site_few(void)
{
	TURN_OVER(few, 0, 128, 128, 1);
}

SITE site_busy(size_t bytes)
{
	for (size_t i = 0; i < 4000; i++) {
		free(busy.blocks[i]);
		busy.blocks[i] = NULL;
	}
	busy.count = 0;
	for (size_t i = 0; i < 4000 + bytes / 128; i++) {
		struct site *const site = i < 4000 ? &busy : &busy_leak;
		if (site->count < MOST)
			site->blocks[site->count++] = malloc(128);
	}
}

static void empty(struct site *site)
{
	while (site->count > 0) {
		free(site->blocks[--site->count]);
		site->blocks[site->count] = NULL;
	}
}

static void dump(const char *folder, int replicate, int round)
{
	char path[4096];
	const char *name = path;

	snprintf(path, sizeof path, "%s/%d-%04d.heap", folder, replicate, round);
	if (mallctl("prof.dump", NULL, NULL, &name, sizeof name) != 0)
		exit(1);
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	const int rounds = atoi(argv[3]);
	const size_t leak_bytes = strtoul(argv[4], NULL, 10);
	const bool shapes = argc > 6 && strcmp(argv[6], "shapes") == 0;
	const bool kinds = argc > 6 && strcmp(argv[6], "kinds") == 0;
	struct site *const all[] = { &statics, &fast, &slow, &noisy, &leak, &step, &cycle, &half,
		&busy, &busy_leak, &slowest, &mixed, &few };

	random_state = strtoull(argv[5], NULL, 10) * 2 + 1;
	for (int replicate = 0; replicate < atoi(argv[2]); replicate++) {
		for (int round = 0; round < rounds; round++) {
			site_static();
			site_fast();
			site_slow();
			site_noisy();
			site_leak(leak_bytes);
			if (shapes) {
				site_step(round, rounds);
				site_cycle(round);
			}
			if (kinds) {
				site_cycle(round);
				site_half();
				site_slowest();
				site_mixed();
				site_few();
				site_busy(leak_bytes);
			}
			dump(argv[1], replicate, round);
		}
		for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
			empty(all[i]);
	}
	return 0;
}
