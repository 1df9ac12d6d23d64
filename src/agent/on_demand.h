/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the agent's thread only when somebody asks, for programs that need to have one thread
 * for a while (unshare(CLONE_NEWUSER), setns).
 *
 * The client asks by a real-time signal that carries a word (docs/protocol.md). The handler may
 * interrupt the program anywhere, and a thread cannot be started anywhere: it does so only when
 * the signal has cut short a system call that waits, where the program is in no allocator and
 * holds no lock of the C library; else it does nothing, and the client asks again.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* The word: "hctl". */
#define ON_DEMAND_WORD 0x6c746368

/* SIGRTMAX - 3. */
int on_demand_signal(void);

/* ERROR_STATE when the program uses the signal;
 * ERROR_UNSUPPORTED on this machine. */
MUST_CHECK bool on_demand_install(struct error *err);
void on_demand_remove(void);
