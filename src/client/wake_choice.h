/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread of a process to interrupt for waking its agent, and what to tell it: from what
 * /proc/PID/task/TID/status and .../syscall say. The agent starts an interrupted call again
 * (agent/safe_point.h); most then go on exactly, and some wait their time anew. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum wake_rank {
	WAKE_EXACT,   /* the call goes on as if nothing had been */
	WAKE_ANEW,    /* it waits its time once more: best just after it began */
	WAKE_UNKNOWN, /* what it waits for may not be read */
	WAKE_NEVER, /* it blocks the signal, waits for signals, runs, or must not be interrupted */
};

struct wake_choice {
	enum wake_rank rank;
	bool blocks_signal;
	uint64_t value;		/* of the signal */
	unsigned long switches; /* how often it has begun to wait */
};

/* "4" of "Seccomp_filters:\t4"; 0 without seccomp, -1 when it cannot be known. */
int wake_filters(const char *status);

/* Whether `set`, of the hexadecimal sets of signals in a status ("SigCgt", "SigBlk"), has the
 * signal. */
bool wake_set_has(const char *status, const char *set, int signal_number);

/* `syscall` is NULL when it cannot be read. */
struct wake_choice wake_choose(const char *status, const char *syscall, int signal_number);
