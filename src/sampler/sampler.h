/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampling heap profiler for whatever malloc the process has.
 *
 * The law is jemalloc's: along the bytes that a thread allocates, sampling points lie at distances
 * that are exponential with a mean of `interval` bytes; a block that one falls into is sampled. So
 * a block of z bytes is sampled with probability 1 - exp(-z / interval), whatever was allocated
 * before, and every formula for jemalloc's profiles is valid (analysis/unsample.h). A thread draws
 * its first distance at its first allocation.
 *
 * sampler/entries.h calls sampler_count() after each allocation and sampler_forget() before each
 * free. A block that is not sampled costs a subtraction, or one load. One that is takes its stack
 * and the lock of all samples, for less than a microsecond.
 *
 * A block is temporary if it is freed before its thread has allocated SAMPLER_TEMPORARY_BYTES more,
 * or within SAMPLER_TEMPORARY_MS by any thread. Whether it is sampled does not depend on that, so
 * the same formulas scale what is temporary.
 *
 * Each sample fires the USDT probe otel_memory:alloc(block, size, weighted bytes), and the end of a
 * sampled block otel_memory:free(block): a nop where no tracer is.
 *
 * In a child after fork, also one that ran no fork handler, the lock is free: it is in a page that
 * the kernel clears there. If another thread of the parent held it at that moment, the samples may
 * be half changed, and the child forgets them.
 *
 * Resident code: takes no memory from the heap, and keeps errno. There is one sampler in a process.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "sampler/live_set.h"

enum {
	SAMPLER_INTERVAL_DEFAULT = 512 * 1024,
	SAMPLER_MEMORY_MAX = 64 * 1024 * 1024, /* of stacks and counters */
	SAMPLER_TEMPORARY_BYTES = 1024 * 1024,
	SAMPLER_TEMPORARY_MS = 10,
};

/*
 * Takes the calling thread's stack: up to `max` return addresses, innermost first. As
 * allocator_backtrace of allocator/allocator.h.
 */
typedef void sampler_backtrace(void **addresses, unsigned *count, unsigned max);

struct sampler_figures {
	uint64_t interval;    /* bytes */
	uint64_t samples;     /* taken since the last reset */
	uint64_t dropped;     /* of these without a site: no memory, or the limit */
	uint64_t live_blocks; /* sampled and in use */
	uint64_t sites;
	uint64_t mapped_bytes; /* of the sampler's own memory */
	int64_t since_ms; /* since 1970, when the samples begin; 0: none was taken since the reset
			   */
};

/* Maps the sampler's memory; again does nothing. ERROR_MEMORY. */
MUST_CHECK bool sampler_init(struct error *err);

/* What takes the stacks, on any thread, within malloc; NULL: samples have none. */
void sampler_set_backtrace(sampler_backtrace *backtrace);
sampler_backtrace *sampler_get_backtrace(void);

/*
 * From now on, for all threads. Off: blocks that are sampled are still forgotten when they are
 * freed. Returns whether it was active.
 */
bool sampler_set_active(bool is_active);
bool sampler_is_active(void);

/* The calling thread is not sampled from now on. */
void sampler_leave_thread_out(void);

/* Before sampling begins. */
void sampler_set_interval(uint64_t interval);

/* Forgets all samples, those of blocks in use too. `interval` 0 keeps the interval. */
void sampler_reset(uint64_t interval);

/* Gives back what the samples outgrew. From time to time. */
void sampler_trim(void);

/* Gives back the memory of samples when there are none any more. */
void sampler_shrink(void);

void sampler_get_figures(struct sampler_figures *figures);

/*
 * Appends a profile in the format heap_v2, without the mappings. The header and each site with
 * temporary blocks have a line "#temporary BLOCKS: BYTES" behind their counters. The samples are
 * copied first, in pieces: no allocation waits for the text, or for all of the copying. False when
 * `out` has no memory, or reached its limit.
 */
MUST_CHECK bool sampler_write(struct buffer *out);

/* In a child, for kernels before Linux 4.14, which clear no page there. No system call. */
void sampler_after_fork(void);

/* --- For sampler/entries.c --- */

struct sampler_thread {
	int64_t countdown;  /* bytes to the next sampling point */
	int64_t drawn;	    /* from which it counts down */
	uint64_t allocated; /* bytes of the thread until it was drawn */
	uint32_t epoch;	    /* in which it was drawn */
	bool is_sampling;   /* has the lock, or is about to: a signal handler may allocate */
	bool is_left_out;
	uint16_t number;    /* 0 before its first sample */
	uint64_t random;    /* 0 before the first draw */
	const void *nested; /* the block that a function called by another one has counted */
};

/*
 * glibc keeps room in each thread for such variables of a library that is loaded later. musl keeps
 * none; there they are taken for all threads when the library is loaded, never at the first use.
 */
#ifdef __GLIBC__
#define SAMPLER_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define SAMPLER_THREAD_LOCAL _Thread_local
#endif

/* Hidden: the functions that are replaced address them directly. */
#pragma GCC visibility push(hidden)
#ifdef HEAPCTL_STATIC_IMAGE
/*
 * The storage of the threads is another C library's: sampler/thread_states.h. Never NULL. A
 * function searches once: it runs on one thread.
 */
__attribute__((const)) struct sampler_thread *sampler_thread_find(void);
#else
extern SAMPLER_THREAD_LOCAL struct sampler_thread sampler_thread;
#endif
/* A new one begins when sampling is switched, or the interval changes: all threads draw again. */
extern _Atomic uint32_t sampler_epoch;
extern struct live_set sampler_live;
#pragma GCC visibility pop

/* The calling thread's. */
static inline struct sampler_thread *sampler_own_thread(void)
{
#ifdef HEAPCTL_STATIC_IMAGE
	return sampler_thread_find();
#else
	return &sampler_thread;
#endif
}

/* `caller`: the return address of the entry, where the stack begins. */
void sampler_take(const void *block, size_t size, const void *caller);

/* Where the functions that count are, if they may call each other: stacks begin behind the
 * outermost. */
void sampler_set_entry_code(uintptr_t begin, uintptr_t end);
void sampler_release(const void *block);

/*
 * Mappings, sampled by the same law. `caller`: as above; `function`: the one that was called, which
 * becomes the innermost frame. After the call, with whole pages.
 */
void sampler_count_mapped(const void *begin, size_t size, const void *caller, const void *function);

/*
 * After pages were unmapped, or mapped anew: ends the mappings there, or the parts of them that
 * are. Another thread may have got the address meanwhile, so only those count that were made before
 * the call: `serial` is what sampler_mapped_serial() returned then.
 */
uint64_t sampler_mapped_serial(void);
void sampler_forget_mapped(const void *begin, size_t size, uint64_t serial);

/* For realloc: takes the block out; then it was freed after all, or it stays. */
bool sampler_suspend(const void *block, struct live_block *was);
void sampler_finish(const void *block, const struct live_block *was);
void sampler_resume(const void *block, const struct live_block *was);

/* Counts an allocation that succeeded, of the calling thread. True: sampler_take() has to be
 * called. */
static inline bool sampler_is_due(size_t size)
{
	struct sampler_thread *const thread = sampler_own_thread();

	thread->countdown -= (int64_t)size;
	return __builtin_expect(thread->countdown < 0, false) ||
	       __builtin_expect(
		       thread->epoch != atomic_load_explicit(&sampler_epoch, memory_order_relaxed),
		       false);
}

/* In the function that the program has called. */
static inline __attribute__((always_inline)) void sampler_count(const void *block, size_t size)
{
	if (sampler_is_due(size))
		sampler_take(block, size, __builtin_return_address(0));
}

/*
 * Before the block is freed: afterwards another thread may have it already, sampled again.
 */
static inline void sampler_forget(const void *block)
{
	if (__builtin_expect(live_set_has(&sampler_live, block), false))
		sampler_release(block);
}
