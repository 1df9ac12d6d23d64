/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that is changed while it runs, to be followed by profiles:
 *
 *	deployed PERIOD_MS LEAK_BYTES_PER_SECOND
 *
 * new_version  has 1 MiB, and from the first 'd' on standard input on loses so many bytes a second;
 * load_plugin  keeps 2 MiB, and 1 MiB more for each 'p';
 * serve_day    has 1 MiB that swings with that period, and loses as much as new_version all the
 *              time.
 *
 * It ends with standard input.
 */
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { OBJECT_BYTES = 256, MIB = 1 << 20, QUEUE_OBJECTS = 2 * MIB / OBJECT_BYTES };

static void *queue[QUEUE_OBJECTS];
static size_t queued;
static void *volatile lost;

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#define SITE __attribute__((noinline)) static void

SITE new_version(size_t objects)
{
	while (objects-- > 0)
		lost = malloc(OBJECT_BYTES);
}

SITE load_plugin(size_t objects)
{
	while (objects-- > 0)
		lost = malloc(OBJECT_BYTES);
}

SITE serve_day(size_t wanted, size_t lost_objects)
{
	while (queued > wanted)
		free(queue[--queued]);
	while (queued < wanted)
		queue[queued++] = malloc(OBJECT_BYTES);
	while (lost_objects-- > 0)
		lost = malloc(OBJECT_BYTES);
}

/* What is still to be leaked by now at this rate. */
static size_t owed(double seconds, double rate, double *paid)
{
	const size_t objects = (size_t)((seconds * rate - *paid) / OBJECT_BYTES);

	*paid += (double)(objects * OBJECT_BYTES);
	return objects;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	const double period = strtod(argv[1], NULL) / 1000, rate = strtod(argv[2], NULL);
	const double start = now_seconds();
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	double deployed = INFINITY, new_paid = 0, day_paid = 0;

	new_version(MIB / OBJECT_BYTES);
	load_plugin(2 * MIB / OBJECT_BYTES);
	for (;;) {
		char commands[64];
		const ssize_t count = poll(&input, 1, 20) > 0
					      ? read(STDIN_FILENO, commands, sizeof commands)
					      : -1;
		if (count == 0)
			return 0;
		const double now = now_seconds();
		for (ssize_t i = 0; i < count; i++) {
			if (commands[i] == 'p')
				load_plugin(MIB / OBJECT_BYTES);
			else if (commands[i] == 'd')
				deployed = now;
		}
		if (now > deployed)
			new_version(owed(now - deployed, rate, &new_paid));
		const double swing = 0.8 * sin(2 * M_PI * (now - start) / period);
		serve_day((size_t)((double)QUEUE_OBJECTS / 2 * (1 + swing)),
			owed(now - start, rate, &day_paid));
	}
}
