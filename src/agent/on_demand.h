/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the agent's thread only for a client, for children (most of them end or exec at once) and
 * for programs that must have one thread for a time (unshare(CLONE_NEWUSER), setns).
 *
 * The client sends a real-time signal with a value (docs/protocol.md). The handler may interrupt
 * the program anywhere, but a thread cannot be started anywhere: it starts one only when the signal
 * has interrupted a system call that waits, where the program is in no allocator and holds no lock
 * of the C library. Otherwise it does nothing, and the client sends the signal again. The
 * interrupted call is resumed.
 *
 * A process that has more seccomp filters than when the handler was installed has entered a
 * sandbox of its own, which may kill it for the agent's system calls. The client sends the number
 * of filters, because the system call that reads it could kill the process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Where a signal has interrupted a thread: whether the handler may start a new thread there, and
 * how the interrupted call is resumed unnoticed. x86-64 only. Pure, except for reading the two time
 * specifications of a sleep.
 *
 * The kernel restarts some calls (SA_RESTART). Others it ends with EINTR: poll, epoll_wait, the
 * sleeps. Those are restarted here, by setting the thread back to the system call instruction. The
 * call's number is not in the context: it is in the instruction before, where the C library loads
 * it, or the client has read it from /proc and sends it.
 */

/* Registers of the interrupted thread. */
struct safe_point_registers {
	uint64_t rax, rdi, rsi, rdx, r10, rip, rsp;
};

enum {
	SAFE_POINT_BEFORE = 8, /* bytes of code read before the instruction pointer */
	SAFE_POINT_BEHIND = 2, /* and from there on */
	SAFE_POINT_CHECK_BITS = 14,
};

/* What a client sends about the call that the thread waits in. */
struct safe_point_hint {
	int number;	/* of the system call; -1: unknown */
	unsigned check; /* safe_point_check of its registers: the call may be another one by now */
};

/* A number of SAFE_POINT_CHECK_BITS that differs when the call is another one. */
unsigned safe_point_check(const struct safe_point_registers *registers);

enum safe_point_kind {
	SAFE_POINT_NONE,    /* not waiting, or for a lock */
	SAFE_POINT_WAITING, /* a thread may be started; what was interrupted stays as it is */
	SAFE_POINT_RESTART, /* a thread may be started; then `registers` restart the call */
};

/*
 * `code` are the bytes around the instruction pointer, 0 where they cannot be read. Changes
 * `registers` for SAFE_POINT_RESTART only.
 */
enum safe_point_kind safe_point_find(const uint8_t code[SAFE_POINT_BEFORE + SAFE_POINT_BEHIND],
	const struct safe_point_hint *hint, struct safe_point_registers *registers);

/* The word, "hctl", and what the client adds to it, in the 64 bits of the signal's value. */
#define ON_DEMAND_WORD 0x6c746368
enum {
	ON_DEMAND_NUMBER_SHIFT = 32, /* the number of the system call plus 1; 0: unknown */
	ON_DEMAND_NUMBER_BITS = 10,
	ON_DEMAND_FILTERS_SHIFT = 42, /* of seccomp; the largest number is unknown */
	ON_DEMAND_FILTERS_BITS = 8,
	ON_DEMAND_CHECK_SHIFT = 50, /* safe_point_check */
};

/* SIGRTMAX - 3. */
int on_demand_signal(void);

/* Whether it works on this machine. */
bool on_demand_is_possible(void);

/*
 * `begin` starts the thread, from the signal handler, which a mapping shows to clients. ERROR_STATE
 * when the program uses the signal; ERROR_UNSUPPORTED on this machine; ERROR_SYSTEM.
 */
MUST_CHECK bool on_demand_install(void (*begin)(void), struct error *err);

/* Unmaps what shows clients the handler. That stays: a signal may be on its way. */
void on_demand_hide(void);

void on_demand_remove(void);
