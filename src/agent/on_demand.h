/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the agent's thread only for a client, for children (most of them end or exec at once) and
 * for programs that must have one thread for a time (unshare(CLONE_NEWUSER), setns).
 *
 * The client sends a real-time signal with a value (docs/protocol.md). The handler may interrupt
 * the program anywhere, but a thread cannot be started anywhere: it starts one only when the signal
 * has interrupted a system call that waits, where the program is in no allocator and holds no lock
 * of the C library. Otherwise it does nothing, and the client sends the signal again. The
 * interrupted call is resumed (agent/safe_point.h).
 *
 * A process that has more seccomp filters than when the handler was installed has entered a
 * sandbox of its own, which may kill it for the agent's system calls. The client sends the number
 * of filters, because the system call that reads it could kill the process.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

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
 * `begin` starts the thread, from the signal handler. `is_seen_as_library`: the process has mapped
 * libheapctl.so, by which clients recognise it; else it gets a mark. ERROR_STATE when the program
 * uses the signal; ERROR_UNSUPPORTED on this machine.
 */
MUST_CHECK bool on_demand_install(void (*begin)(void), bool is_seen_as_library, struct error *err);
void on_demand_remove(void);
