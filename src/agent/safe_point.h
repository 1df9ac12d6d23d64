/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a signal has interrupted a thread: whether the handler (agent/on_demand.c) may start a new
 * thread there, and how the interrupted call is resumed unnoticed. x86-64 only. Pure, except for
 * reading the two time specifications of a sleep.
 *
 * The kernel restarts some calls (SA_RESTART). Others it ends with EINTR: poll, epoll_wait, the
 * sleeps. Those are restarted here, by setting the thread back to the system call instruction. The
 * call's number is not in the context: it is in the instruction before, where the C library loads
 * it, or the client has read it from /proc and sends it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
