/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of the calling thread, quickly and without risk: for a sampler within malloc.
 *
 * No lock, no memory, and no system call on the thread's own stack; a wrong table or a garbage
 * stack ends the walk early and cannot fault. Code without a rule (a just-in-time compiler's, an
 * interpreter in assembly) is passed along the chain of frame pointers, if that leads back to code
 * with rules; otherwise the walk ends there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/modules.h"
#include "unwind/step.h"

/* Fills a frame with the place that it is written at; not on machines whose registers step.h does
 * not have. */
#if defined(__x86_64__)
#define UNWIND_HERE(frame)                                                       \
	__asm__ volatile("leaq 0(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2" \
			 : "=r"((frame)->pc), "=r"((frame)->sp), "=r"((frame)->fp))
#elif defined(__aarch64__)
#define UNWIND_HERE(frame)                                              \
	__asm__ volatile(                                               \
		"adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30" \
		: "=r"((frame)->pc), "=r"((frame)->sp), "=r"((frame)->fp), "=r"((frame)->lr))
#else
#define UNWIND_HERE(frame) ((void)(frame))
#endif

enum {
	UNWIND_CACHE_ENTRIES = 4096, /* 64 KiB */
};

/*
 * Rules by address, shared by all threads. An entry is two words that are not written together; the
 * upper half of the second one proves that they belong to each other.
 */
struct unwind_cache {
	struct {
		_Atomic uint64_t key;
		_Atomic uint64_t rule;
	} entries[UNWIND_CACHE_ENTRIES];
};

/*
 * The return addresses from the caller of `start`'s function outward; returns how many. `start` is
 * a frame of the calling thread that is still there. Async-signal-safe.
 */
size_t unwind_backtrace(struct unwind_modules *modules, struct unwind_cache *cache,
	const struct unwind_frame *start, void **addresses, size_t max);

/*
 * Which addresses a walk of the calling thread may read without a fault.
 *
 * On the stack that the C library gave the thread, from the frame up to its end: the end is in the
 * thread's own control block, or learned at the start for the main thread, so it costs neither a
 * system call nor a lock. On another one (an alternate signal stack, a coroutine's) each page is
 * probed once per walk by a system call that has no effect, and that sandboxes allow because malloc
 * needs it itself.
 */

struct unwind_stack {
	uint64_t begin, end; /* readable */
	uint64_t own_top;    /* end of the thread's own stack; 0 when unknown */
	uint64_t own_reach;  /* how far below own_top the own stack may go */
	unsigned probes;
};

/*
 * Learns what the calling thread's stack shows: where all control blocks say how large a stack is,
 * or, of the main thread, its own stack. A thread that takes a walk before that learns the first by
 * itself. Stacks that nothing is known of are probed.
 */
void unwind_stack_learn(void);

/* A walk begins at `sp` on the calling thread. */
void unwind_stack_init(struct unwind_stack *stack, uint64_t sp);

/* The walk has come to a frame at `sp`, which may be on another stack. */
void unwind_stack_move(struct unwind_stack *stack, uint64_t sp);

/* Makes the aligned word at `address` part of what is readable, by a probe; false when it is not.
 */
bool unwind_stack_extend(struct unwind_stack *stack, uint64_t address);

/* An unwind_read. It reads what sanitizers put between variables, too. */
__attribute__((no_sanitize("address", "thread"))) static inline bool unwind_stack_read(
	void *context, uint64_t address, uint64_t *value)
{
	struct unwind_stack *const stack = context;

	if ((address & 7) != 0)
		return false;
	if (__builtin_expect(address < stack->begin || address >= stack->end, 0) &&
		!unwind_stack_extend(stack, address))
		return false;
	*value = *(const volatile uint64_t *)(uintptr_t)address;
	return true;
}
