/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of sockets and kept profiles. It is used only when it is a real directory (no
 * symlink), belongs to the user that the process runs as at this moment, and is closed to all
 * others; so names in it need not fear other users.
 *
 * The folder is opened by its path for each use and never held open: a descriptor of a folder
 * that outlives a chroot() is a way out of it. No heap memory is used.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/settings.h"
#include "base/error.h"

struct folder {
	char path[SETTINGS_PATH_MAX + 32];
};

/*
 * Picks the folder: the one that was asked for; else /run/heapctl for root, the session's runtime
 * folder, /tmp/heapctl-UID, in this order; made when missing. A folder that was asked for and
 * belongs to another user (the process gave up its privileges) is passed over.
 */
MUST_CHECK bool folder_choose(
	const struct settings *settings, struct folder *folder, struct error *err);

/* Opens and checks it; makes it, mode 0700, when `make`. */
MUST_CHECK bool folder_open(const struct folder *folder, bool make, int *fd, struct error *err);

/*
 * Keeps other agents, those of other pid namespaces too, from naming and removing files here until
 * folder_unlock. Waits for at most FOLDER_LOCK_MS; false when another process still has it, or
 * where there are no locks: then nothing of other processes may be removed.
 */
enum { FOLDER_LOCK_MS = 100 };
bool folder_lock(int fd);
void folder_unlock(int fd);

enum { FOLDER_NAME_MAX = 128 };

/* ".4711.c0ffee0123456789": an unpredictable name. */
void folder_random_name(char name[FOLDER_NAME_MAX]);

/* The pid in such a name; 0 for any other name. */
pid_t folder_pid_of_random_name(const char *name);

/* Gives a file a new name; ERROR_SYSTEM with EEXIST when that is taken. */
MUST_CHECK bool folder_rename_new(int fd, const char *from, const char *to, struct error *err);

/*
 * Calls `visit` with each name in the directory that `fd` is open on, until it returns false.
 * "." and ".." are left out.
 */
MUST_CHECK bool folder_list(
	int fd, bool (*visit)(void *context, const char *name), void *context, struct error *err);
