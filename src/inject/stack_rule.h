/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a thread may be made to call pthread_create() where it stands.
 *
 * That function takes memory from the program's allocator and locks of the C library. A thread that
 * holds one of these locks would wait for itself; with a single thread the C library takes no lock
 * at all, and a call in the middle of malloc would destroy the heap. So the stack has to show that
 * the thread is in neither: it is either in the program's own code, with nothing but such code
 * below it, or in a system call that a waiting function of the C library has made (poll, read,
 * nanosleep), in which no lock is held. In a signal handler what it has interrupted has to be so as
 * well: some programs never return from theirs (the helpers of PostgreSQL up to 15).
 *
 * In a process with musl that is asked of the C library's code (inject/musl_stack.h), and what a
 * thread may come back to of all words of its stack.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "inject/musl_stack.h"
#include "inject/remote.h"

enum { STACK_FRAMES_MAX = 256 };

enum stack_kind {
	STACK_CODE,    /* of the program, or of a library without a malloc */
	STACK_LIBC,    /* the C library */
	STACK_WAITING, /* one of its functions that wait without a lock */
	STACK_JOINING, /* one that takes a lock or releases memory after its wait (futex) */
	STACK_LOADER,
	STACK_ALLOCATOR,
	STACK_WITH_MALLOC, /* a program that brings a malloc of its own: may be in it */
	STACK_UNKNOWN,	   /* made at run time, or without unwind information */
	STACK_SIGNAL,	   /* a signal handler was called here */
	STACK_UNREAD,	   /* too long to be read to its end */
};

struct thread_stack {
	enum stack_kind kinds[STACK_FRAMES_MAX]; /* innermost first */
	uint64_t pcs[STACK_FRAMES_MAX];
	size_t count;
	bool is_complete; /* the outermost frame is the last one */
	bool is_in_call;  /* the thread is in a system call */
	bool is_in_futex; /* which is that one */
};

/*
 * Whether the thread is outside of that code and will not return to it. The stack that was walked
 * without a frame pointer, as of a thread that was not stopped, proves it only if it is complete.
 */
bool stack_is_outside(
	const struct thread_stack *stack, uint64_t code, size_t size, bool has_frame_pointer);

/* NULL when it is safe; else what the thread is doing, as the end of "the thread ...". */
const char *stack_refusal(const struct thread_stack *stack);

/* Functions of the C library. */
enum { STACK_FUNCTIONS_MAX = 192 };

struct stack_functions {
	struct remote_function functions[STACK_FUNCTIONS_MAX];
	size_t count;
};

enum { STACK_MAKECONTEXT_MAX = 2048 };

/* What a walk has to know of the C library: those that wait, first of all. */
struct stack_waiting {
	struct stack_functions waiting, joining; /* STACK_WAITING, STACK_JOINING */
	/* The code of makecontext(), which refers to where the first function of a stack returns.
	 */
	uint64_t makecontext;
	size_t makecontext_size;
	unsigned char makecontext_code[STACK_MAKECONTEXT_MAX];
	struct musl_code musl;
};

/* Whether makecontext() made the stack of which this is the outermost return address. */
bool stack_is_context_end(const struct stack_waiting *waiting, uint64_t pc);

void stack_waiting_find(struct stack_waiting *waiting, const struct remote_process *remote);

/* A thread's registers, as a walk begins with them. */
struct stack_registers {
	uint64_t pc, sp, fp;
	uint64_t scratch[UNWIND_SCRATCH_COUNT]; /* not of a thread in a system call */
	uint64_t top;				/* the stack is below it; 0: unknown */
	bool is_in_call;
	long call; /* its number, then */
};

/* Walks the stack of a thread; the thread should stand still, but need not. */
void stack_walk(struct thread_stack *stack, const struct remote_process *remote,
	const struct stack_waiting *waiting, const struct stack_registers *registers);

/* One frame of a walk. `module` is NULL outside of all modules. */
struct stack_frame {
	const struct remote_module *module;
	struct unwind_rule rule;
	uint64_t pc; /* in the instruction that it executes, or in the call that it waits for */
	uint64_t next_pc; /* where it continues */
	uint64_t sp;
	bool is_exact_pc; /* the two are the same */
};

/*
 * Calls `visit` for each frame, innermost first, until it returns false. False when the outermost
 * one was not reached.
 */
bool stack_visit(const struct remote_process *remote, const struct stack_waiting *waiting,
	const struct stack_registers *registers,
	bool (*visit)(void *context, const struct stack_frame *frame), void *context);
