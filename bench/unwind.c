/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times one stack of a given depth, by unwind_backtrace and by libgcc's unwinder in turns, and the
 * building of all tables of this process.
 * usage: unwind DEPTH ROUNDS; prints "FRAMES OWN_NS LIBGCC_NS BUILD_US ROWS CODE_BYTES".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unwind.h>

#include "unwind/backtrace.h"

enum { FRAMES_MAX = 128, STACKS = 2000 };

static struct unwind_modules modules;
static struct unwind_cache cache;
static uint64_t own_ns = UINT64_MAX, libgcc_ns = UINT64_MAX;
static size_t own_frames, libgcc_frames;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct stack {
	void *addresses[FRAMES_MAX];
	size_t count;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *argument)
{
	struct stack *const stack = argument;

	if (stack->count == FRAMES_MAX)
		return _URC_END_OF_STACK;
	stack->addresses[stack->count++] = (void *)_Unwind_GetIP(context);
	return _URC_NO_REASON;
}

static void smaller(uint64_t *least, uint64_t value)
{
	if (value < *least)
		*least = value;
}

static void measure(int rounds)
{
	struct stack stack;

	for (int round = 0; round < rounds; round++) {
		const uint64_t begin = now_ns();
		for (int i = 0; i < STACKS; i++) {
			struct unwind_frame here = { 0 };
			UNWIND_HERE(&here);
			own_frames = unwind_backtrace(
				&modules, &cache, &here, stack.addresses, FRAMES_MAX);
		}
		const uint64_t middle = now_ns();
		for (int i = 0; i < STACKS; i++) {
			stack.count = 0;
			_Unwind_Backtrace(add_frame, &stack);
		}
		smaller(&own_ns, (middle - begin) / STACKS);
		smaller(&libgcc_ns, (now_ns() - middle) / STACKS);
		libgcc_frames = stack.count;
	}
}

__attribute__((noinline)) static int recurse(int depth, int rounds)
{
	if (depth == 0)
		measure(rounds);
	else
		recurse(depth - 1, rounds);
	__asm__ volatile("");
	return depth;
}

static void *learn(void *argument)
{
	unwind_stack_learn();
	return argument;
}

int main(int argc, char **argv)
{
	struct error err;
	bool changed = false;
	size_t rows = 0;
	uint64_t code_bytes = 0;

	if (argc != 3)
		return 2;
	pthread_t thread;
	if (pthread_create(&thread, NULL, learn, NULL) != 0)
		return 1;
	pthread_join(thread, NULL);
	const uint64_t begin = now_ns();
	if (!unwind_modules_update(&modules, &changed, &err)) {
		fprintf(stderr, "unwind: %s\n", err.message);
		return 1;
	}
	const uint64_t built_ns = now_ns() - begin;
	const struct unwind_list *const list = atomic_load(&modules.list);
	for (size_t i = 0; i < list->count; i++) {
		rows += list->modules[i].count;
		code_bytes += list->modules[i].code_bytes;
	}
	recurse(atoi(argv[1]), atoi(argv[2]));
	printf("%zu %lu %lu %lu %zu %lu\n", own_frames, own_ns, libgcc_ns, built_ns / 1000, rows,
		code_bytes);
	/* libgcc's begins with the calling function, and ends with a null. */
	return own_frames + 2 >= libgcc_frames ? 0 : 1;
}
