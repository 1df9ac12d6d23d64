/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which agents there are: their sockets are searched in the folders where agents put them
 * (HEAPCTL_DIR of the process and our own, /run/heapctl, the user's runtime folder,
 * /tmp/heapctl-UID), in each process' own root, so that containers are reached from outside; and
 * among the listening sockets of the kernel's table.
 *
 * A *candidate* is a path with such a name; connecting shows whether the right agent answers there
 * (client/target.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/string_pool.h"
#include "client/process.h"

/* Bytes of the variable HEAPCTL_DIR: the agent (agent/settings.h) ignores a longer one. */
enum { HEAPCTL_DIR_MAX = 255 };

/* The candidates for one process in those folders, likeliest first, appended to `paths`. */
void discovery_candidates(const struct process *process, struct string_pool *paths);

/*
 * The agents' sockets of the kernel's tables of listening sockets. The table of a network namespace
 * is read for the first of its processes: it can have thousands of lines. Any thread.
 */
struct listening_tables;
struct listening_tables *listening_tables_create(void);
void listening_tables_destroy(struct listening_tables *tables);

DEFINE_CLEANUP(listening_tables_cleanup, struct listening_tables *, listening_tables_destroy)

/*
 * Those in any folder that the kernel's table names: the process may have been another user when
 * its agent made the socket.
 */
void discovery_listening(
	struct listening_tables *tables, const struct process *process, struct string_pool *paths);

/*
 * All sockets in the folders that this process sees, of any user: /run/heapctl,
 * HEAPCTL_DIR, the runtime folder, /tmp/heapctl-*; and the listening ones in the kernel's table.
 * Also those that a process bound but ended before it gave them a name to be found by.
 */
void discovery_sockets(struct listening_tables *tables, struct string_pool *paths);

/*
 * Whether one of the folders in which the process would put its socket is there, or could be made.
 */
bool discovery_has_place(const struct process *process);

/*
 * Whether our HEAPCTL_DIR, for which an attached agent has no variable of its own, is missing where
 * the process would see it.
 */
bool discovery_has_lost_own_folder(const struct process *process);

/*
 * The folder that its environment names for its socket, if by owner and mode its agent could make
 * one there; false otherwise. Then something that cannot be seen may forbid it.
 */
bool discovery_usable_folder(const struct process *process, char folder[4096]);

/* The folders in which an agent of this process may put its socket, as paths that we can use. */
void discovery_folders(const struct process *process, struct string_pool *folders);

/* Why a process that has the agent's library loaded has no agent, by its environment. */
enum agent_absence {
	ABSENCE_UNKNOWN,       /* it should have one */
	ABSENCE_DISABLED,      /* HEAPCTL_DISABLE */
	ABSENCE_OTHER_PROGRAM, /* HEAPCTL_EXE names others */
};

/* `environment` as process_read_environment has it. */
enum agent_absence agent_absence(const struct process *process, const struct buffer *environment);

/* The same where the environment was not read yet. */
enum agent_absence agent_absence_of(const struct process *process);
