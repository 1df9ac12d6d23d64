/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/stack_memory.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	/* glibc's control block is 2.3 KiB, musl's 0.2. */
	CONTROL_BLOCK_BYTES = 2048,
	/* A main thread's stack, whose lower end moves, is believed so far and probed beyond. */
	MAIN_STACK_BYTES = 64 * 1024 * 1024,
	THREAD_STACK_BYTES_MAX = 1024 * 1024 * 1024,
	/* A walk of more stack than that on a stack that is not the thread's own is cut. */
	PROBES_MAX = 256,
};

/*
 * Where, from the thread pointer on, a control block has two words: the lowest address of the
 * thread's stack and its size. glibc's `stackblock`, musl's `map_base`. 0 while unknown.
 */
static _Atomic ptrdiff_t bounds_offset;

/* The main thread's control block, and an address above all of its frames; 0 while unknown. */
static _Atomic uintptr_t main_thread;
static _Atomic uint64_t main_top;

static const char *control_block(void)
{
	const char *const pointer = __builtin_thread_pointer();

#if defined(__aarch64__)
	/* The block lies below the thread pointer. */
	return pointer - CONTROL_BLOCK_BYTES;
#else
	return pointer;
#endif
}

static bool is_bounds(const uint64_t words[2], uint64_t on_stack, uint64_t block)
{
	return words[0] % PAGE == 0 && words[1] % PAGE == 0 && words[1] > 2 * PAGE &&
	       words[1] < THREAD_STACK_BYTES_MAX && words[0] <= on_stack && on_stack < block &&
	       block < words[0] + words[1];
}

static uintptr_t own_thread(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

/* Not of glibc's main thread, whose control block is not on its stack. */
static ptrdiff_t find_bounds(void)
{
	const char *const block = control_block();
	uint64_t words[2];

	for (ptrdiff_t at = sizeof words[0]; at + (ptrdiff_t)sizeof words <= CONTROL_BLOCK_BYTES;
		at += sizeof words[0]) {
		memcpy(words, block + at, sizeof words);
		if (is_bounds(words, (uint64_t)(uintptr_t)&words, own_thread())) {
			atomic_store(&bounds_offset, at);
			return at;
		}
	}
	return 0;
}

void unwind_stack_learn(void)
{
	if (syscall(SYS_gettid) != getpid()) {
		find_bounds();
		return;
	}
	/* What the kernel puts there lies above the first frame. */
	atomic_store(&main_top, getauxval(AT_RANDOM) & ~UINT64_C(7));
	atomic_store(&main_thread, own_thread());
}

void unwind_stack_move(struct unwind_stack *stack, uint64_t sp)
{
	if (sp >= stack->begin && sp < stack->end)
		return;
	if (sp < stack->own_top && stack->own_top - sp <= stack->own_reach) {
		stack->begin = sp;
		stack->end = stack->own_top;
		return;
	}
	stack->begin = stack->end = 0;
}

void unwind_stack_init(struct unwind_stack *stack, uint64_t sp)
{
	const bool is_main =
		atomic_load_explicit(&main_thread, memory_order_relaxed) == own_thread();
	ptrdiff_t offset = atomic_load_explicit(&bounds_offset, memory_order_relaxed);

	*stack = (struct unwind_stack){ 0 };
	if (offset == 0 && !is_main)
		offset = find_bounds();
	if (is_main) {
		stack->own_top = atomic_load_explicit(&main_top, memory_order_relaxed);
		stack->own_reach = MAIN_STACK_BYTES;
	} else if (offset != 0) {
		uint64_t words[2];
		memcpy(words, control_block() + offset, sizeof words);
		/* glibc's main thread has no lowest address, and its end for a size. */
		stack->own_top = (words[0] + words[1]) & ~UINT64_C(7);
		stack->own_reach = words[0] == 0 ? MAIN_STACK_BYTES : words[1];
	}
	unwind_stack_move(stack, sp);
}

/*
 * The kernel reads the set before it checks the invalid operation: EINVAL when the set is readable,
 * EFAULT when not.
 */
static bool is_readable(uint64_t address)
{
	enum { NO_SUCH_ACTION = 0x7fff, SET_BYTES = 8 };
	const int errnum = errno;
	const long result = syscall(SYS_rt_sigprocmask, NO_SUCH_ACTION, address, NULL, SET_BYTES);
	const bool readable = result != 0 && errno == EINVAL;

	errno = errnum;
	return readable;
}

bool unwind_stack_extend(struct unwind_stack *stack, uint64_t address)
{
	const uint64_t page = address & ~(uint64_t)(PAGE - 1);

	/* Nothing of a frame on the thread's own stack lies elsewhere. */
	if (stack->end != 0 && stack->end == stack->own_top)
		return false;
	if (stack->probes == PROBES_MAX)
		return false;
	stack->probes++;
	if (!is_readable(address))
		return false;
	if (page != stack->end)
		stack->begin = page;
	stack->end = page + PAGE;
	return true;
}
