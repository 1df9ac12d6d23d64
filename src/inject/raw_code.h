/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread of a static program runs when it is made to start a thread that belongs to no C
 * library, and what that one runs: the counterpart of inject/trampoline.h where nothing of the
 * process can be called.
 *
 * The borrowed thread maps memory, calls clone(2), and continues where it was, its system call
 * included. Its registers are constants in the code, and it writes to no memory of the program but
 * to its own stack, 248 bytes below the stack pointer. So it may be stopped at any instruction, and
 * needs no help afterwards: the process that has put it there may end at any moment.
 *
 * The new thread makes the system calls that the exchange (base/image_exchange.h) requests, and
 * then enters the agent's image. Without a request it ends by itself after some seconds.
 *
 * The code lies where that of the trampoline would, in as many bytes. x86-64 only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/trampoline.h"

/* What the code has to know. The assembler code knows the order. */
struct raw_request {
	uint64_t memory; /* where to map; unused */
	/* The signal mask of the borrowed thread when it continues, and until then. */
	uint64_t blocked, blocked_meanwhile;
	/* As those of struct trampoline_request. */
	uint64_t resume, signals, flags, resume_interrupted;
	/* With which it continues. */
	uint64_t processor_flags;
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15;
};

/* As trampoline_is_in(). */
bool raw_code_is_in(const char *bytes, uint64_t *memory);

/* Bytes of code, for `code`; 0 on another machine. */
size_t raw_code_make(const struct raw_request *request, uint64_t code[TRAMPOLINE_CODE_MAX / 8]);
