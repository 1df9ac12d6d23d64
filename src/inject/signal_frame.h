/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel puts on a stack when it calls a signal handler (x86-64): the address that the
 * handler returns to, then the registers of what it has interrupted (ucontext_t).
 *
 * The C library's code at that address has unwind information that says so. A program may bring
 * its own, without any; and no walk gets to it from a handler that has none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/remote.h"

/* What is read of it, from the address that the handler returns to on. */
enum { SIGNAL_FRAME_BYTES = 200 };

/* Whether these bytes are such a frame; the code at its address is asked, too. */
bool signal_frame_is(const struct remote_process *remote, const unsigned char *bytes);

/*
 * The lowest such frame in memory that was copied from `address` on, a multiple of 8; 0: none. One
 * that has been left may still be there.
 */
uint64_t signal_frame_find(const struct remote_process *remote, uint64_t address,
	const unsigned char *bytes, size_t size);
