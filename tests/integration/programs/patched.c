/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose allocator is patched while it runs, and that checks each of its blocks.
 *
 * usage: patched THREADS [NAP_MS]
 *
 * THREADS storm through the functions of the allocator, with a nap now and then: each block is
 * filled, and must be the same when it is freed. Prints "ready"; then for each line of its input:
 * "hold" has each function allocate HELD blocks of HELD_BYTES, which stay until "drop"; "fork" lets
 * a child storm for a while; "keep" keeps the addresses of malloc and free, which "use" calls.
 * Answers "done" or what went wrong; "ok ROUNDS" at the end of the
 * input.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 128, HELD = 50, HELD_BYTES = 100000, CHILD_ROUNDS = 20000, ROUNDS_TO_NAP = 64 };

static _Atomic bool is_ending;
static _Atomic unsigned long rounds;
static int nap_ms;

/* C++'s, of the allocator or of the C++ library. NOLINTBEGIN(bugprone-reserved-identifier) */
void *_Znwm(size_t size);
void *_Znam(size_t size);
void _ZdlPv(void *block);
void _ZdaPv(void *block);
void _ZdlPvm(void *block, size_t size);
/* NOLINTEND(bugprone-reserved-identifier) */

#ifdef PATCHED_JEMALLOC
void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
void sdallocx(void *block, size_t size, int flags);
#endif

static void fault(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
	_exit(1);
}

/* --- Ways to allocate, each a function that a profile shows --- */

#define SITE __attribute__((noinline))

static SITE void *way_plain(size_t size)
{
	void *const block = malloc(size);

	__asm__ volatile("" ::: "memory");
	return block;
}

static SITE void *way_zeroed(size_t size)
{
	void *const block = calloc(size, 1);

	__asm__ volatile("" ::: "memory");
	return block;
}

static SITE void *way_resized(size_t size)
{
	void *block = malloc(size / 2 + 1);

	memset(block, 7, size / 2 + 1);
	block = realloc(block, size);
	for (size_t i = 0; i < size / 2 + 1 && i < size; i++) {
		if (((unsigned char *)block)[i] != 7)
			fault("realloc has lost bytes");
	}
	return block;
}

static SITE void *way_aligned(size_t size)
{
	void *const block = aligned_alloc(64, (size + 63) & ~(size_t)63);

	if (((uintptr_t)block & 63) != 0)
		fault("aligned_alloc has not aligned");
	return block;
}

static SITE void *way_paged(size_t size)
{
	void *block = NULL;

	if (posix_memalign(&block, 4096, size) != 0 || ((uintptr_t)block & 4095) != 0)
		fault("posix_memalign has failed");
	return block;
}

static SITE void *way_one(size_t size)
{
	void *const block = _Znwm(size);

	__asm__ volatile("" ::: "memory");
	return block;
}

static SITE void *way_array(size_t size)
{
	void *const block = _Znam(size);

	__asm__ volatile("" ::: "memory");
	return block;
}

static void release(void *block, size_t size)
{
	(void)size;
	free(block);
}

static void release_sized(void *block, size_t size)
{
	_ZdlPvm(block, size);
}

static void release_array(void *block, size_t size)
{
	(void)size;
	_ZdaPv(block);
}

#ifdef PATCHED_JEMALLOC
static SITE void *way_plain_x(size_t size)
{
	void *const block = mallocx(size, 0);

	__asm__ volatile("" ::: "memory");
	return block;
}

static SITE void *way_resized_x(size_t size)
{
	return rallocx(mallocx(size / 2 + 1, 0), size, 0);
}

static void release_x(void *block, size_t size)
{
	sdallocx(block, size, 0);
}
#endif

static const struct way {
	void *(*allocate)(size_t size);
	void (*release)(void *block, size_t size);
} ways[] = {
	{ way_plain, release },
	{ way_zeroed, release },
	{ way_resized, release },
	{ way_aligned, release },
	{ way_paged, release },
	{ way_one, release_sized },
	{ way_array, release_array },
#ifdef PATCHED_JEMALLOC
	{ way_plain_x, release_x },
	{ way_resized_x, release_x },
#endif
};

enum { WAYS = sizeof ways / sizeof *ways };

/* --- The storm --- */

struct block {
	unsigned char *bytes;
	size_t size;
	unsigned char filling;
	const struct way *way;
};

static void end_block(struct block *block)
{
	if (block->bytes == NULL)
		return;
	for (size_t i = 0; i < block->size; i++) {
		if (block->bytes[i] != block->filling)
			fault("a block has changed");
	}
	block->way->release(block->bytes, block->size);
	block->bytes = NULL;
}

static void turn(struct block *blocks, uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	struct block *const block = &blocks[*random % BLOCKS];
	end_block(block);
	*block = (struct block){ .size = 1 + (*random >> 20) % 2000,
		.filling = (unsigned char)(*random >> 40),
		.way = &ways[(*random >> 48) % WAYS] };
	block->bytes = block->way->allocate(block->size);
	if (block->bytes == NULL)
		fault("no memory");
	memset(block->bytes, block->filling, block->size);
}

static void *storm(void *context)
{
	uint64_t random = (uintptr_t)context * UINT64_C(0x9e3779b97f4a7c15);
	struct block blocks[BLOCKS] = { 0 };

	while (!is_ending) {
		turn(blocks, &random);
		if (++rounds % ROUNDS_TO_NAP == 0 && nap_ms > 0)
			usleep((useconds_t)nap_ms * 1000);
	}
	for (int i = 0; i < BLOCKS; i++)
		end_block(&blocks[i]);
	return NULL;
}

/* --- Commands --- */

static void *held[WAYS][HELD];

static void hold(void)
{
	for (int i = 0; i < WAYS; i++) {
		for (int k = 0; k < HELD; k++)
			held[i][k] = ways[i].allocate(HELD_BYTES);
	}
}

static void drop(void)
{
	for (int i = 0; i < WAYS; i++) {
		for (int k = 0; k < HELD; k++)
			ways[i].release(held[i][k], HELD_BYTES);
	}
}

static void fork_storm(void)
{
	const pid_t child = fork();
	int status = 0;

	if (child == 0) {
		struct block blocks[BLOCKS] = { 0 };
		uint64_t random = 88172645463325252;
		for (int i = 0; i < CHILD_ROUNDS; i++)
			turn(blocks, &random);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fault("the child has failed");
}

/* As programs keep them in their objects. */
static struct {
	void *(*volatile allocate)(size_t size);
	void (*volatile release)(void *block);
} kept;

static void keep(void)
{
	kept.allocate = malloc;
	kept.release = free;
}

static void use_kept(void)
{
	unsigned char *const block = kept.allocate(HELD_BYTES);

	if (block == NULL)
		fault("no memory");
	memset(block, 1, HELD_BYTES);
	kept.release(block);
}

static bool read_line(char *line, size_t size)
{
	size_t used = 0;

	/* By read(), in which heapctl may use the thread. */
	while (used + 1 < size && read(STDIN_FILENO, line + used, 1) == 1) {
		if (line[used] == '\n') {
			line[used] = '\0';
			return true;
		}
		used++;
	}
	return false;
}

int main(int argc, char **argv)
{
	const int count = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t threads[256];
	char line[32];

	nap_ms = argc > 2 ? atoi(argv[2]) : 0;
	for (int i = 0; i < count; i++) {
		if (pthread_create(&threads[i], NULL, storm, (void *)(uintptr_t)(i + 1)) != 0)
			fault("no thread");
	}
	puts("ready");
	fflush(stdout);
	while (read_line(line, sizeof line)) {
		if (strcmp(line, "hold") == 0)
			hold();
		else if (strcmp(line, "drop") == 0)
			drop();
		else if (strcmp(line, "fork") == 0)
			fork_storm();
		else if (strcmp(line, "keep") == 0)
			keep();
		else if (strcmp(line, "use") == 0)
			use_kept();
		puts("done");
		fflush(stdout);
	}
	is_ending = true;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("ok %lu\n", rounds);
	return 0;
}
