/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread of another process, stopped by ptrace(2) for some microseconds.
 *
 * A stop by ptrace ends some system calls with EINTR that no signal has interrupted
 * (epoll_wait, signal(7)). Here such a call begins anew instead, so that the program does not
 * notice.
 *
 * When this process dies, the kernel lets the thread go on from where its registers point to.
 * All calls for a thread are made by the thread that has seized it, which blocks SIGCHLD.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/error.h"
#include "inject/raw_code.h"
#include "inject/stack_rule.h"

struct tracee {
	pid_t thread; /* 0: none */
	/* With which it continues; a system call that was interrupted begins anew by them. */
	struct user_regs_struct registers;
	bool is_in_call;     /* it was in a system call */
	long call;	     /* its number */
	bool is_in_sequence; /* in a restartable sequence (rseq(2)), which a detour would break */
	bool has_signal;     /* a handler is to be called just now */
	/* Which signals' handlers would end the system call, but for those with these flags. */
	uint64_t signals, flags;
	uint64_t blocked;   /* its signal mask, not one that its system call has set for itself */
	bool may_be_ended;  /* a handler would end the call with EINTR */
	bool has_to_rewind; /* the stop has ended the call, which the kernel does not begin anew */
};

enum tracee_outcome {
	TRACEE_STOPPED,
	TRACEE_GONE,   /* it has ended */
	TRACEE_FAILED, /* `err` says why; it goes on as if it had not been stopped */
	TRACEE_STUCK,  /* `err` says why; it is seized until the caller ends */
};

/*
 * Seizes and stops the thread, within `wait_ms`. ERROR_DENIED where it has another tracer;
 * ERROR_TIMEOUT for a thread that waits for a device (D).
 */
enum tracee_outcome tracee_stop(
	struct tracee *tracee, pid_t thread, int wait_ms, struct error *err);

/* Its two steps, for a caller that stops many: the first does not wait. */
enum tracee_outcome tracee_seize(pid_t thread, struct error *err);
enum tracee_outcome tracee_wait(
	struct tracee *tracee, pid_t thread, int wait_ms, struct error *err);

/* With which a walk of its stack begins. */
struct stack_registers tracee_stack_registers(const struct tracee *tracee);

/* The address of its thread-local storage (fs), which glibc places above a thread's stack. */
uint64_t tracee_thread_pointer(const struct tracee *tracee);

/* The registers of the request, and where the thread continues. */
void tracee_fill_registers(const struct tracee *tracee, struct raw_request *request);

/*
 * Whether a stop ends this system call with EINTR, and it has done nothing then: it begins anew,
 * unless we die just after the stop.
 */
bool tracee_call_ends(long number);

/* Writes words into the process, also where it may not write itself. */
MUST_CHECK bool tracee_write(const struct tracee *tracee, uint64_t address, const uint64_t *words,
	size_t count, struct error *err);

/* Lets it go on as if it had never been stopped. */
MUST_CHECK bool tracee_resume(struct tracee *tracee, struct error *err);

/*
 * Lets it go on at `pc`, with `registers` and the signals of `blocked` blocked: a handler of one
 * that came during the stop would run first, and the system call begin anew after it.
 */
MUST_CHECK bool tracee_redirect(
	struct tracee *tracee, uint64_t pc, uint64_t blocked, struct error *err);
