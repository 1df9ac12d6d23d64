/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates, moves and frees on several threads for some seconds and until standard input ends, and
 * checks every byte of every block, while children are made, libraries come and go, and signals
 * arrive. Says "ok" at the end.
 *
 *	sampled_stress SECONDS [no-alignment]
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 6, BLOCKS = 400, SHARED = 64, SIZE_MAX_LOG = 16 };

struct block {
	unsigned char *bytes;
	size_t size;
	unsigned char fill;
};

static struct block shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static bool aligns = true;
static _Atomic bool is_done;
static _Atomic unsigned long operations;
static _Atomic unsigned long signals;

static void fail(const char *what)
{
	if (write(2, what, strlen(what)) < 0)
		_exit(4);
	_exit(3);
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static size_t draw_size(uint32_t *random)
{
	return next_random(random) % (UINT32_C(1) << (next_random(random) % SIZE_MAX_LOG)) + 1;
}

static void check(const struct block *block, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (block->bytes[i] != block->fill)
			fail("a block has other bytes\n");
	}
}

static void fill(struct block *block, size_t size, uint32_t *random)
{
	if (block->bytes == NULL)
		fail("no memory\n");
	block->size = size;
	block->fill = (unsigned char)next_random(random);
	if (malloc_usable_size(block->bytes) < size)
		fail("a block is too small\n");
	memset(block->bytes, block->fill, size);
}

static void make(struct block *block, uint32_t *random)
{
	const size_t size = draw_size(random);
	const size_t alignment = (size_t)16 << next_random(random) % 9;
	void *aligned = NULL;

	switch (next_random(random) % (aligns ? 6 : 4)) {
	case 3:
		block->bytes = calloc(1, size);
		for (size_t i = 0; block->bytes != NULL && i < size; i++) {
			if (block->bytes[i] != 0)
				fail("calloc gave other bytes than zeros\n");
		}
		break;
	case 4:
		if (posix_memalign(&aligned, alignment, size) != 0 ||
			(uintptr_t)aligned % alignment != 0)
			fail("posix_memalign\n");
		block->bytes = aligned;
		break;
	case 5:
		block->bytes = memalign(alignment, size);
		break;
	default:
		block->bytes = malloc(size);
		break;
	}
	fill(block, size, random);
}

static void drop(struct block *block)
{
	check(block, block->size);
	free(block->bytes);
	block->bytes = NULL;
}

static void resize(struct block *block, uint32_t *random)
{
	const size_t size = draw_size(random);
	unsigned char *const moved = next_random(random) % 2 == 0
					     ? realloc(block->bytes, size)
					     : reallocarray(block->bytes, size, 1);

	if (moved == NULL)
		fail("no memory\n");
	block->bytes = moved;
	check(block, size < block->size ? size : block->size);
	fill(block, size, random);
}

/* Another thread frees it. */
static void exchange(struct block *block, uint32_t *random)
{
	pthread_mutex_lock(&shared_lock);
	struct block *const other = &shared[next_random(random) % SHARED];
	const struct block mine = *block;
	*block = *other;
	*other = mine;
	pthread_mutex_unlock(&shared_lock);
}

static void work(struct block *blocks, bool shares, uint32_t *random)
{
	struct block *const block = &blocks[next_random(random) % BLOCKS];

	if (block->bytes == NULL)
		make(block, random);
	else if (next_random(random) % 4 == 0)
		resize(block, random);
	else if (shares && next_random(random) % 4 == 0)
		exchange(block, random);
	else
		drop(block);
	atomic_fetch_add(&operations, 1);
}

static void *run(void *argument)
{
	static _Thread_local struct block blocks[BLOCKS];
	uint32_t random = (uint32_t)(uintptr_t)argument;

	while (!atomic_load(&is_done))
		work(blocks, true, &random);
	for (int i = 0; i < BLOCKS; i++) {
		if (blocks[i].bytes != NULL)
			drop(&blocks[i]);
	}
	return NULL;
}

static void work_shortly(uint32_t random, bool shares)
{
	struct block blocks[BLOCKS] = { { 0 } };

	for (int i = 0; i < 200; i++)
		work(blocks, shares, &random);
	for (int i = 0; i < BLOCKS; i++) {
		if (blocks[i].bytes != NULL)
			drop(&blocks[i]);
	}
}

/* A short-lived thread: other threads free its last blocks. */
static void *run_shortly(void *argument)
{
	work_shortly((uint32_t)(uintptr_t)argument, true);
	return NULL;
}

static void *make_threads(void *argument)
{
	for (uintptr_t i = 1; !atomic_load(&is_done); i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, run_shortly, (void *)i) == 0)
			pthread_join(thread, NULL);
	}
	return argument;
}

static void *load_libraries(void *argument)
{
	static const char *const names[] = { "libz.so.1", "libm.so.6", "libstdc++.so.6",
		"libbz2.so.1.0" };

	for (unsigned i = 0; !atomic_load(&is_done); i++) {
		const int mode = (i & 4) != 0 ? RTLD_LAZY | RTLD_DEEPBIND : RTLD_LAZY;
		void *const library = dlopen(names[i % 4], mode);
		void *const symbol = library == NULL ? NULL : dlsym(library, "zlibVersion");
		const char *(*version)(void) = NULL;
		memcpy(&version, &symbol, sizeof version);
		if (version != NULL && version()[0] == '\0')
			fail("zlibVersion\n");
		if (library != NULL)
			dlclose(library);
		usleep(500);
	}
	return argument;
}

static void check_child(pid_t child)
{
	int status = 0;

	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail("a child did not end well\n");
}

static void *make_children(void *argument)
{
	char *const words[] = { "/bin/true", NULL };

	for (unsigned i = 0; !atomic_load(&is_done); i++) {
		pid_t child = -1;
		if (i % 3 == 0) {
			if (posix_spawn(&child, words[0], NULL, NULL, words, environ) != 0)
				fail("posix_spawn\n");
		} else {
			child = fork();
			if (child == 0 && i % 3 == 1) {
				alarm(60);
				/* Another thread of the parent may have the lock. */
				work_shortly(i, false);
				_exit(0);
			}
			if (child == 0)
				execv(words[0], words);
		}
		if (child > 0)
			check_child(child);
		usleep(1000);
	}
	return argument;
}

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS + 3];
	size_t count = 0;
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	aligns = argc < 3;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[count++], NULL, run, (void *)(i + 1));
	pthread_create(&threads[count++], NULL, make_threads, NULL);
	pthread_create(&threads[count++], NULL, load_libraries, NULL);
	pthread_create(&threads[count++], NULL, make_children, NULL);
	struct timespec end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += argc > 1 ? atoi(argv[1]) : 1;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0)
		continue;
	while (read(STDIN_FILENO, &(char){ 0 }, 1) > 0)
		continue;
	atomic_store(&is_done, true);
	for (size_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < SHARED; i++) {
		if (shared[i].bytes != NULL)
			drop(&shared[i]);
	}
	printf("ok %lu operations\n", atomic_load(&operations));
	return 0;
}
