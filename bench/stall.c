/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose heap has as many distinct stacks as it is told, and a thread that allocates all
 * the time and remembers the longest malloc. Commands on stdin: "reset" forgets the longest,
 * "longest" prints it in nanoseconds, "dump PATH" lets jemalloc write a profile by itself and
 * prints what processor time that took; "dump-to-memory" the same into a memfd, as the agent does.
 *
 * usage: stall DISTINCT_STACKS
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int mallctl(const char *name, void *old, size_t *old_size, void *value, size_t value_size);

static atomic_long longest_ns;

static long ns_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static long now_ns(void)
{
	return ns_of(CLOCK_MONOTONIC);
}

typedef void *step(unsigned path, unsigned depth);
static step step_a, step_b, step_c, step_d;
static step *const steps[] = { step_a, step_b, step_c, step_d };

enum { DEPTH = 12, KEPT_BYTES = 256 };

static void *descend(unsigned path, unsigned depth)
{
	if (depth == 0)
		return malloc(KEPT_BYTES);
	return steps[path % 4](path / 4, depth - 1);
}

/* Four different functions; the barrier keeps each a frame of its own. */
#define STEP(name, number)                                                         \
	__attribute__((noinline)) static void *name(unsigned path, unsigned depth) \
	{                                                                          \
		void *const block = descend(path, depth);                          \
		__asm__ volatile("" ::"r"(block), "i"(number));                    \
		return block;                                                      \
	}
STEP(step_a, 0)
STEP(step_b, 1)
STEP(step_c, 2)
STEP(step_d, 3)

/* How often the kernel took the processor away from this thread. */
static long preemptions(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nivcsw;
}

/* A malloc during which the thread was not running tells nothing about locks. */
static void *allocate_all_the_time(void *argument)
{
	const unsigned *const stacks = argument;

	for (unsigned path = 0;; path = (path + 1) % *stacks) {
		const long before = preemptions();
		const long begin = now_ns();
		void *const block = descend(path, DEPTH);
		const long took = now_ns() - begin;
		free(block);
		if (took > atomic_load(&longest_ns) && preemptions() == before)
			atomic_store(&longest_ns, took);
	}
	return NULL;
}

/*
 * Its own processor time in nanoseconds, which a busy machine does not change; -1 when it failed.
 */
static long dump(const char *path)
{
	const long begin = ns_of(CLOCK_THREAD_CPUTIME_ID);
	const int failed = mallctl("prof.dump", NULL, NULL, &path, sizeof path);

	return failed != 0 ? -1 : ns_of(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static long dump_to_memory(void)
{
	const int fd = memfd_create("profile", MFD_CLOEXEC);
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	const long took = dump(path);
	close(fd);
	return took;
}

int main(int argc, char **argv)
{
	unsigned stacks = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
	pthread_t thread;
	char line[4096];

	for (unsigned i = 0; i < stacks; i++) {
		if (descend(i, DEPTH) == NULL)
			return 1;
	}
	if (pthread_create(&thread, NULL, allocate_all_the_time, &stacks) != 0)
		return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "reset") == 0) {
			atomic_store(&longest_ns, 0);
			puts("0");
		} else if (strcmp(line, "longest") == 0) {
			printf("%ld\n", atomic_load(&longest_ns));
		} else if (strncmp(line, "dump ", 5) == 0) {
			printf("%ld\n", dump(line + 5));
		} else if (strcmp(line, "dump-to-memory") == 0) {
			printf("%ld\n", dump_to_memory());
		}
		fflush(stdout);
	}
	return 0;
}
