/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pair of malloc and free costs: a hot one of 64 bytes, and in a ring of 65536 blocks of 16
 * to 1039 bytes. Prints both as nanoseconds, the least of many short batches.
 *
 * A second thread sleeps meanwhile, because allocators are quicker in a process with one thread.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 1500, PAIRS = 2000, RING = 65536 };

static void *ring[RING];

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void hot_pairs(void)
{
	for (int i = 0; i < PAIRS; i++) {
		void *volatile block = malloc(64);
		free(block);
	}
}

static void ring_pairs(void)
{
	static uint32_t random = 1;

	for (int i = 0; i < PAIRS; i++) {
		random = random * 1664525 + 1013904223;
		void **const slot = &ring[random >> 16];
		free(*slot);
		*slot = malloc(16 + (random >> 4 & 1023));
	}
}

static double min_ns(void (*pairs)(void))
{
	double least = 1e18;

	for (int i = 0; i < BATCHES; i++) {
		const double begin = now_ns();
		pairs();
		const double took = (now_ns() - begin) / PAIRS;
		least = took < least ? took : least;
	}
	return least;
}

static void *sleep_forever(void *argument)
{
	for (;;)
		pause();
	return argument;
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, sleep_forever, NULL) != 0)
		return 1;
	const double hot = min_ns(hot_pairs);
	printf("%.2f %.2f\n", hot, min_ns(ring_pairs));
	return 0;
}
