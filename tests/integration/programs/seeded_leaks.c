/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server with a cache that it turns over and three seeded leaks, to be followed while it runs:
 *
 *	seeded_leaks SLOW_BYTES_PER_SECOND CYCLE_BYTES CYCLE_MS REQUEST_BYTES [stepped]
 *
 * leak_slowly   loses so many bytes a second, as long as the program lives;
 * fill_queue    fills a queue evenly up to CYCLE_BYTES, and empties it every CYCLE_MS;
 * serve_request loses REQUEST_BYTES for each "r" on standard input, and nothing without.
 *
 * With "stepped" its time passes by order alone: 20 ms for each "t" on standard input; a "?" is
 * answered with a line. It ends with standard input.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	OBJECT_BYTES = 128,
	CACHE_OBJECTS = 16000,
	CACHE_BYTES = 512,
	QUEUE_BYTES = 256,
	STEP_MS = 20
};

static void *cache[CACHE_OBJECTS];
static void **queue;
static size_t queued;
static void *volatile lost;
static uint64_t state = 88172645463325252;

static uint64_t chance(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#define SITE __attribute__((noinline)) static void

/* One in eight is replaced at a time. */
SITE turn_cache_over(void)
{
	for (size_t i = 0; i < CACHE_OBJECTS; i++) {
		if (cache[i] != NULL && chance() % 8 != 0)
			continue;
		free(cache[i]);
		cache[i] = malloc(CACHE_BYTES);
	}
}

SITE leak_slowly(size_t objects)
{
	for (size_t i = 0; i < objects; i++)
		lost = malloc(OBJECT_BYTES);
}

SITE fill_queue(size_t wanted)
{
	while (queued < wanted)
		queue[queued++] = malloc(QUEUE_BYTES);
}

static void empty_queue(void)
{
	while (queued > 0)
		free(queue[--queued]);
}

SITE serve_request(size_t bytes)
{
	for (size_t left = bytes; left >= OBJECT_BYTES; left -= OBJECT_BYTES)
		lost = malloc(OBJECT_BYTES);
}

/* Obeys what is on standard input; false when that has ended. Stepped, it returns after each "t".
 */
static bool obey(bool is_stepped, size_t request_bytes)
{
	char orders[256];

	for (;;) {
		struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
		if (!is_stepped && poll(&input, 1, STEP_MS) <= 0)
			return true;
		const ssize_t count = read(STDIN_FILENO, orders, is_stepped ? 1 : sizeof orders);
		if (count <= 0)
			return false;
		for (ssize_t i = 0; i < count; i++) {
			if (orders[i] == 'r')
				serve_request(request_bytes);
			else if (orders[i] == '?' && write(STDOUT_FILENO, "done\n", 5) != 5)
				return false;
		}
		if (!is_stepped || orders[0] == 't')
			return true;
	}
}

int main(int argc, char **argv)
{
	const bool is_stepped = argc == 6 && strcmp(argv[5], "stepped") == 0;

	if (argc != 5 && !is_stepped)
		return 2;
	const double slow = strtod(argv[1], NULL), period = strtod(argv[3], NULL) / 1000;
	const size_t queue_max = strtoul(argv[2], NULL, 10) / QUEUE_BYTES;
	const size_t request_bytes = strtoul(argv[4], NULL, 10);
	const double start = now_seconds();
	double leaked = 0, last_phase = 0;

	queue = malloc((queue_max + 1) * sizeof *queue);
	for (unsigned step = 0;; step++) {
		if (!obey(is_stepped, request_bytes))
			return 0;
		const double time = is_stepped ? step * STEP_MS / 1000.0 : now_seconds() - start;
		const size_t owed = (size_t)((time * slow - leaked) / OBJECT_BYTES);
		leak_slowly(owed);
		leaked += (double)(owed * OBJECT_BYTES);

		const double phase = time / period - (double)(long)(time / period);
		if (phase < last_phase)
			empty_queue();
		last_phase = phase;
		fill_queue((size_t)(phase * (double)queue_max));
		if (step % 8 == 0)
			turn_cache_over();
	}
}
