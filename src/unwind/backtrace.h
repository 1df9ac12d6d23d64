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

#include "unwind/modules.h"
#include "unwind/step.h"

/* Fills a frame with the place that it is written at. */
#if defined(__x86_64__)
#define UNWIND_HERE(frame)                                                       \
	__asm__ volatile("leaq 0(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2" \
			 : "=r"((frame)->pc), "=r"((frame)->sp), "=r"((frame)->fp))
#elif defined(__aarch64__)
#define UNWIND_HERE(frame)                                              \
	__asm__ volatile(                                               \
		"adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30" \
		: "=r"((frame)->pc), "=r"((frame)->sp), "=r"((frame)->fp), "=r"((frame)->lr))
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
