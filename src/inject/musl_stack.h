/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stack of a thread shows in a process with musl, whose C library has no unwind
 * information: no walk gets through its frames.
 *
 * Its own code says enough instead. It waits for the program in one place (a cancellation point),
 * with a single instruction, and switches that off where it waits for a lock of its own or with
 * one. A handler returns to one address, so a stack without that address has no handler on it. What
 * starts a program or a thread calls exit() or pthread_exit() with what comes back.
 *
 * x86-64 only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/remote.h"

/* Addresses in the process; 0: not found. */
struct musl_code {
	uint64_t wait;	   /* behind the system call of a cancellation point */
	uint64_t restorer; /* where signal handlers return */
	uint64_t exit, pthread_exit;
	struct remote_function fork;
};

/* All 0 where its C library is another one. */
void musl_code_find(struct musl_code *code, const struct remote_process *remote);

/* Whether a thread at `pc`, in system call `call`, waits for what the program has asked for. */
bool musl_is_waiting(const struct musl_code *code, uint64_t pc, long call);

/*
 * Whether a thread in system call `call` at `pc` waits for a lock within fork(). It may have been
 * there before: old values on its stack look the same.
 */
bool musl_is_forking(const struct musl_code *code, const struct remote_process *remote, uint64_t sp,
	uint64_t pc, long call);

/* Whether a stack's outermost frame outside of the C library returns here. */
bool musl_is_start(
	const struct musl_code *code, const struct remote_process *remote, uint64_t return_address);

/*
 * Words of the stack from `sp` on that tell where the thread may come back to: the restorer, and
 * addresses in the unused bytes behind a module's code. The stack ends at `top`, if that is above
 * `sp`, or where its memory does. Returns how many of at most `max`; `is_whole`: nothing was left
 * out.
 */
size_t musl_find_words(const struct musl_code *code, const struct remote_process *remote,
	uint64_t sp, uint64_t top, uint64_t words[], size_t max, bool *is_whole);
