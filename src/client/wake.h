/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agents on demand (docs/protocol.md): a process has no agent's thread until a client's signal, as
 * the children of a target by default. The signal is sent only if the kernel shows a handler for
 * it, never to a process that has entered a sandbox, and only to a thread that waits where an
 * interruption is harmless.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/process.h"

enum wake_state {
	WAKE_NO_AGENT,	/* the signal has no handler */
	WAKE_ASLEEP,	/* may be woken */
	WAKE_AWAKE,	/* its thread runs: it creates a socket, or cannot */
	WAKE_SANDBOXED, /* has seccomp filters that it did not have at its start */
};

enum wake_state wake_read_state(const struct process *process);

/* The same where its modules were read: of a large process they are thousands of mappings. */
enum wake_state wake_state_of(const struct process *process, const struct process_modules *modules);

/*
 * Fills `err` where a child of a target has the agent loaded but does not handle the signal: it
 * has reset its signals, HEAPCTL_CHILDREN keeps the agent out, or the target was attached. False
 * where it is no such child.
 */
bool wake_explain_child(const struct process *process, struct error *err);

/* Why a sandboxed one is not asked. Returns false. */
MUST_CHECK bool wake_refuse(const struct process *process, struct error *err);

/* ERROR_STATE when its limit of open files leaves its agent none for a client. */
MUST_CHECK bool wake_can_accept(const struct process *process, struct error *err);

/* ERROR_STATE when its limit of open files is too low for the agent's socket. */
MUST_CHECK bool wake_can_open_files(const struct process *process, struct error *err);

/* ERROR_STATE when a process without an agent has opened all files that its limit permits. */
MUST_CHECK bool wake_has_free_descriptor(const struct process *process, struct error *err);

/*
 * Whether RLIMIT_NPROC permits one more thread, by the texts of /proc/PID/status and limits. As the
 * kernel does, it exempts real user 0 and processes with CAP_SYS_RESOURCE or CAP_SYS_ADMIN:
 * `zero_is_root` when user 0 of `status` is that of the first user namespace, `has_first_rights`
 * when the process is in that namespace.
 */
bool wake_limit_permits_thread(
	const char *status, const char *limits, bool zero_is_root, bool has_first_rights);

/*
 * ERROR_STATE when the limit of its user's processes allows it no thread, and so no agent. True as
 * well where that cannot be read.
 */
MUST_CHECK bool wake_can_make_thread(const struct process *process, struct error *err);

/*
 * ERROR_STATE when all its threads block the signal that wakes it, at several looks: many block it
 * for a moment.
 */
MUST_CHECK bool wake_can_take_signal(const struct process *process, struct error *err);

/*
 * ERROR_STATE when the first thread of the process could end it. The C library's call of a function
 * of the loader may have to be bound yet, and is when the agent's thread is started: the loader
 * then reads all files that it has mapped, and one was damaged (client/mapped_files.h).
 */
MUST_CHECK bool wake_check_files(const struct process *process, struct error *err);

/* An agent being woken, from 0 on. */
struct wake {
	int64_t begun_ms;
	unsigned long switches; /* of the thread `thread`, at the last look */
	pid_t thread;
	int64_t sent_ms;
	unsigned sent;		  /* signals */
	bool all_block;		  /* no thread could take the signal */
	int64_t blocked_since_ms; /* 0: at the last look one could */
	int64_t awake_since_ms;	  /* 0: its thread was not there at the last look */
	bool asked_for_socket;	  /* its thread was */
};

/*
 * Asks once, if there is a thread to be interrupted now. ERROR_DENIED, ERROR_NOT_FOUND when it is
 * not asleep at all, ERROR_STATE when it must not be asked.
 */
MUST_CHECK bool wake_request(const struct process *process, struct wake *wake, struct error *err);

/*
 * How long to go on asking, how often, how long of one that blocks the signal, and of one whose
 * thread has no socket: it makes a lost one again within two seconds. Its thread is asked for one
 * after WAKE_ASK_MS: it may be making it.
 */
enum {
	WAKE_TIMEOUT_MS = 5000,
	WAKE_INTERVAL_MS = 20,
	WAKE_BLOCKED_MS = 1500,
	WAKE_SOCKET_MS = 2500,
	WAKE_ASK_MS = 300,
};

/*
 * Which thread of a process to interrupt: from /proc/PID/task/TID/status and .../syscall. The agent
 * starts an interrupted call again (agent/on_demand.h); most calls then continue exactly, and some
 * wait their full time again. Pure functions.
 */
enum wake_rank {
	WAKE_EXACT,   /* the call continues as if uninterrupted */
	WAKE_ANEW,    /* it waits its full time again: best just after it began */
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

/* `syscall` is NULL when it cannot be read. */
struct wake_choice wake_choose(const char *status, const char *syscall, int signal_number);
