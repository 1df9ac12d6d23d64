/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program that uses jemalloc with prof:true: takes each sample's stack with
 * jemalloc's own unwinder and with unwind_backtrace, compares them, and counts. At the end, and
 * once a second, it writes "same different shorter longer own_ns oracle_ns frames\n" into
 * $COMPARE_STACKS.PID.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "unwind/backtrace.h"

typedef void backtrace_function(void **addresses, unsigned *count, unsigned max);
typedef int mallctl_function(const char *, void *, size_t *, void *, size_t);

enum { FRAMES_MAX = 128 };

static struct unwind_modules modules;
static struct unwind_cache cache;
static backtrace_function *oracle;
static _Atomic uint64_t same, different, shorter, longer, own_ns, oracle_ns, frames;
static bool only_own;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void print_frames(const char *title, void **addresses, unsigned count)
{
	Dl_info info;
	char line[256];

	if (write(2, title, strlen(title)) < 0)
		return;
	for (unsigned i = 0; i < count; i++) {
		const bool known = dladdr(addresses[i], &info) != 0;
		const int size = snprintf(line, sizeof line, "  %p %s+%#lx %s\n", addresses[i],
			known ? info.dli_fname : "?",
			known ? (unsigned long)addresses[i] - (unsigned long)info.dli_fbase : 0,
			known && info.dli_sname != NULL ? info.dli_sname : "");
		if (write(2, line, (size_t)size) < 0)
			return;
	}
}

static void compare(void **addresses, unsigned *count, unsigned max)
{
	void *own[FRAMES_MAX];
	struct unwind_frame here = { 0 };
	const uint64_t begin = now_ns();

	UNWIND_HERE(&here);
	const unsigned own_count = (unsigned)unwind_backtrace(
		&modules, &cache, &here, own, max < FRAMES_MAX ? max : FRAMES_MAX);
	const uint64_t middle = now_ns();
	own_ns += middle - begin;
	frames += own_count;
	if (only_own) {
		memcpy(addresses, own, own_count * sizeof own[0]);
		*count = own_count;
		same++;
		return;
	}
	oracle(addresses, count, max);
	oracle_ns += now_ns() - middle;
	/* libgcc's begins in functions of its own. */
	unsigned skip = 0;
	while (skip < *count && (own_count == 0 || addresses[skip] != own[0]))
		skip++;
	unsigned other = *count - skip;
	while (other > 0 && addresses[skip + other - 1] == NULL)
		other--;
	const unsigned less = other < own_count ? other : own_count;
	/* Where both were cut at the limit, the other one has fewer of the program's frames. */
	const bool was_cut = *count == max;
	if (skip == *count || memcmp(own, addresses + skip, less * sizeof own[0]) != 0)
		different++;
	else if (own_count < other)
		shorter++;
	else if (own_count > other && !was_cut)
		longer++;
	else
		same++;
	static _Atomic int printed;
	if (getenv("COMPARE_STACKS_PRINT") != NULL && other != own_count && !was_cut &&
		atomic_fetch_add(&printed, 1) < 5) {
		print_frames("own:\n", own, own_count);
		print_frames("oracle:\n", addresses + skip, other);
	}
}

static void write_counts(void)
{
	char path[512], line[256];

	snprintf(path, sizeof path, "%s.%d", getenv("COMPARE_STACKS"), getpid());
	const int size = snprintf(line, sizeof line, "%lu %lu %lu %lu %lu %lu %lu\n", same,
		different, shorter, longer, own_ns, oracle_ns, frames);
	/* A file that is emptied first stays empty when the process ends between the two. */
	const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && write(fd, line, (size_t)size) == size && ftruncate(fd, size) == 0)
		close(fd);
}

/* Stacks through a library that was opened since are not comparable: counting begins anew. */
static void learn_modules(void)
{
	bool changed = false;
	struct error ignored;

	if (unwind_modules_update(&modules, &changed, &ignored) && changed)
		same = different = shorter = longer = own_ns = oracle_ns = frames = 0;
}

static void *write_often(void *argument)
{
	(void)argument;
	unwind_stack_learn();
	/* What was counted since a library was opened is lost: little if it is seen soon. */
	for (int turn = 1;; turn++) {
		usleep(10000);
		learn_modules();
		if (turn % 100 == 0)
			write_counts();
	}
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	void *const symbol = dlsym(RTLD_DEFAULT, "mallctl");
	mallctl_function *mallctl = NULL;
	backtrace_function *own = compare;
	size_t size = sizeof oracle;
	struct error err;
	pthread_t thread;
	bool changed = false;

	memcpy(&mallctl, &symbol, sizeof mallctl);
	only_own = getenv("COMPARE_STACKS_OWN") != NULL;
	if (mallctl == NULL || getenv("COMPARE_STACKS") == NULL ||
		!unwind_modules_update(&modules, &changed, &err) ||
		mallctl("experimental.hooks.prof_backtrace", &oracle, &size, NULL, 0) != 0)
		return;
	if (pthread_create(&thread, NULL, write_often, NULL) != 0)
		return;
	if (mallctl("experimental.hooks.prof_backtrace", NULL, NULL, &own, sizeof own) == 0)
		atexit(write_counts);
}
