/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How samples get their stacks: by unwind/backtrace.h, in place of the compiler's unwinder.
 *
 * jemalloc's profiler calls libgcc's unwinder, which takes microseconds a stack and aborts the
 * process when it meets code made at run time. Where jemalloc lets its function be replaced
 * (experimental.hooks.prof_backtrace, 5.3), the walk is ours while sampling is on.
 *
 * There is one replacement in a process. The functions are called by one thread at a time; samples
 * are taken on any thread meanwhile.
 */
#pragma once

#include "agent/settings.h"
#include "allocator/allocator.h"

/*
 * Builds the tables of all modules and replaces the function; once it is replaced, adds the
 * tables of what was loaded since. ERROR_UNSUPPORTED where it cannot be replaced: the stacks are
 * jemalloc's then.
 */
MUST_CHECK bool stacks_take_over(struct allocator *allocator, struct error *err);

/* Adds the tables of what was loaded since, where the function is replaced. */
void stacks_refresh(void);

/* Puts the function back, unless another one has replaced ours, and releases the tables. */
void stacks_give_back(struct allocator *allocator);

/* In a child, where only the calling thread is left. No system call. */
void stacks_after_fork(void);

/*
 * From the main thread and the agent's: makes walks on threads' own stacks free of system calls.
 */
void stacks_learn_thread(void);

/* What the tables of one module cover. */
struct stacks_module {
	const char *name; /* "" is the program; valid until the visit returns */
	size_t rows;
	uint64_t code_bytes;	/* of functions that .eh_frame describes */
	uint64_t covered_bytes; /* of these: with a row that leads to the caller */
};

void stacks_visit(void (*visit)(void *context, const struct stacks_module *module), void *context);

/* Whether stacks are walked by heapctl, or will be when sampling is switched on. */
bool stacks_are_ours(const struct allocator *allocator, const struct settings *settings);
