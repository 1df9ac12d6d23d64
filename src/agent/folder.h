/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of sockets and kept profiles. It is used only when it is a real directory (no
 * symlink), belongs to the user that the process runs as now, and is closed to all others; so no
 * other user can change names in it.
 *
 * The folder is opened by its path for each use and never held open: a descriptor of a folder
 * that outlives a chroot() is a way out of it. No heap memory is used.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/descriptor.h"
#include "agent/settings.h"
#include "base/error.h"

struct folder {
	char path[SETTINGS_PATH_MAX + 32];
};

/*
 * Picks the folder: the configured one; else /run/heapctl for root, the session's runtime folder,
 * /tmp/heapctl-UID, /dev/shm/heapctl-UID, in this order; made when missing. A configured folder
 * that belongs to another user (the process has dropped its privileges) is skipped.
 */
MUST_CHECK bool folder_choose(
	const struct settings *settings, struct folder *folder, struct error *err);

/*
 * Whether the parent has an agent with a socket: a hint for its children, in the folder of the
 * settings alone.
 */
bool folder_has_socket_of_parent(const struct settings *settings);

/*
 * Adds a hint to an error of a call on `path` that was denied although the modes of the files
 * permit it (`mode` as for access(2)). Returns false.
 */
bool folder_explain_denial(const char *path, int mode, struct error *err);

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

/*
 * Proof that a file of the folder belongs to a living process. A pid proves nothing: two containers
 * that share a folder have the same pids for different processes, and cannot see each other's.
 *
 * An agent locks what it writes (flock). A kept lock is bound to a mapping of the file instead of a
 * descriptor: it lasts until the process ends or executes another program, whatever the program
 * closes, and a forked child does not inherit it. Nothing reads or writes the mapping.
 */
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

/*
 * Descriptors to poll that report when the agent's socket may not be found by its name any more.
 *
 * An inotify descriptor becomes readable when the name is gone or its folder has moved. It watches
 * the socket's own file and the folder's, not what other processes make in the folder, so it wakes
 * the agent for nothing else.
 *
 * /proc/thread-self/mountinfo has POLLPRI when the thread's mounts have changed: a file system that
 * is mounted over the folder, or over one above, hides the name and changes no file. poll() takes
 * the event away. Where mounts come and go all the time, it is polled once per
 * FOLDER_WATCH_PAUSE_MS.
 *
 * A user has a few inotify instances, 128 by default, for all processes. An agent takes one only if
 * some are left for others, and a forked child's agent should take none. One thread at a time.
 */

enum {
	FOLDER_WATCH_PAUSE_MS = 1000,
	FOLDER_WATCH_POLL_MAX = 2,
};

struct folder_watch {
	int fd;		    /* -1: none */
	uint64_t inode;	    /* of the socket's file, to recognise the descriptor as ours */
	bool has_own_files; /* in the thread's own table of descriptors */
	struct descriptor mounts;
	int64_t mounts_after_ms; /* not polled before */
};

#define FOLDER_WATCH_NONE ((struct folder_watch){ .fd = -1, .mounts = DESCRIPTOR_NONE })

/* Watches the name in the folder instead of what was watched before; none where it cannot. */
void folder_watch_open(struct folder_watch *watch, const struct folder *folder, const char *name,
	uint64_t inode, bool has_own_files);
void folder_watch_close(struct folder_watch *watch);

/* In a forked child: closes the parent's, where that was in a table that both had. */
void folder_watch_close_inherited(const struct folder_watch *own);

bool folder_watch_is_open(const struct folder_watch *watch);

/* Fills `fds`, room for FOLDER_WATCH_POLL_MAX. */
size_t folder_watch_poll_list(const struct folder_watch *watch, int64_t now_ms, struct pollfd *fds);

/* Milliseconds until there is more to poll; -1: there is not. */
int64_t folder_watch_wait_ms(const struct folder_watch *watch, int64_t now_ms);

/* Whether it filled in this descriptor. */
bool folder_watch_has(const struct folder_watch *watch, int fd);

/* Takes what poll has found for it. False when the descriptor is no longer ours. */
bool folder_watch_drain(struct folder_watch *watch, int fd, int64_t now_ms);
