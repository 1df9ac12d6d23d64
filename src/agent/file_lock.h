/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof that a file of the folder belongs to a living process. A pid is none: two containers that
 * share a folder have the same pids for different processes, and cannot see each other's.
 *
 * An agent locks what it writes (flock). A kept lock hangs on a mapping of the file instead of a
 * descriptor: it lasts until the process ends or executes another program, whatever the program
 * closes, and a forked child does not inherit it. Nothing reads or writes the mapping.
 */
#pragma once

#include <stdbool.h>

struct file_lock {
	void *page; /* NULL: not kept */
};

/* Locks the file for as long as `fd` is open; false where that cannot be done. */
bool file_lock_open(int fd);

/*
 * Keeps the lock of file_lock_open without `fd`, which must be open for reading. False where the
 * file cannot be mapped.
 */
bool file_lock_keep(int fd, struct file_lock *lock);

/* Gives a kept lock back; fine for one that is not kept. */
void file_lock_release(struct file_lock *lock);

/* Whether a living process has locked this file of the folder; also when that cannot be found out.
 */
bool file_lock_is_held(int folder_fd, const char *name);
