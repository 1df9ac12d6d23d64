/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files: read, map, write so that a reader sees all or nothing. Descriptors are opened
 * close-on-exec. Errors name the path. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"

/* The last part of a path. */
static inline const char *path_base_name(const char *path)
{
	const char *const slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/*
 * A regular file's bytes, mapped read-only and private. An empty file has data == NULL and size 0.
 */
struct file_map {
	const char *data;
	size_t size;
};

/* Release with file_unmap. */
MUST_CHECK bool file_map(const char *path, struct file_map *map, struct error *err);

/* Maps what `fd` is open on; `name` is for errors. The descriptor may be closed afterwards. */
MUST_CHECK bool file_map_fd(int fd, const char *name, struct file_map *map, struct error *err);
void file_unmap(struct file_map *map);

/* The error of a file that the user named and that cannot be opened, with what to do. Returns
 * false.
 */
bool file_open_failed(const char *path, int errnum, struct error *err);

/* Appends everything that can be read from `fd`; ERROR_INPUT past the buffer's limit. */
MUST_CHECK bool file_read_fd(int fd, const char *name, struct buffer *out, struct error *err);

/* As before, but reads no more once `out` has that many bytes. */
MUST_CHECK bool file_read_until(
	int fd, const char *name, size_t enough_bytes, struct buffer *out, struct error *err);

/* Appends the whole file; for /proc files too, whose size is not known beforehand. */
MUST_CHECK bool file_read(const char *path, struct buffer *out, struct error *err);

/* Appends /proc/self/maps; what a thread sees where the main thread has ended, which shows nothing.
 */
MUST_CHECK bool file_read_own_maps(struct buffer *out, struct error *err);

/* Reads the file of a formatted name into `text`, which then has nothing else. False when it cannot
 * be read. */
MUST_CHECK bool file_try_read(struct buffer *text, const char *format, ...) PRINTF_FORMAT(2, 3);

/* The error of a write, with what to do where the disk is full. Returns false. */
bool file_write_failed(const char *name, int errnum, struct error *err);

/* Writes all of it, over short writes and EINTR. */
MUST_CHECK bool file_write_fd(
	int fd, const char *name, const void *data, size_t size, struct error *err);

/*
 * Writes all bytes of one file to the end of another; it reads from the start whatever the offset.
 * The names are for errors.
 */
MUST_CHECK bool file_copy_fd(
	int from, const char *from_name, int to, const char *to_name, struct error *err);

/*
 * Replaces `path` by a file with these contents: written beside it under a name that no other user
 * can predict, then renamed. On failure nothing is left behind and the old file is untouched. A
 * path that is no regular file (a device, a pipe), or a name of the system for a descriptor of this
 * process (/dev/stdout, /dev/fd/N), is written in place.
 */
MUST_CHECK bool file_write(
	const char *path, const void *data, size_t size, mode_t mode, struct error *err);

/* Makes the folder and those above it that are not there. */
MUST_CHECK bool file_make_folder(const char *path, mode_t mode, struct error *err);

/*
 * A file in the making, for contents that come piece by piece: write to `fd`, then commit. Until
 * then the old file, if there is one, is untouched; discarding leaves nothing behind, nor does the
 * end of this process where the file system has files without a name. What file_write writes in
 * place is written in place here. A link in /dev or /proc is not replaced (ERROR_USAGE). Where an
 * old file is replaced, the new one has no more permissions.
 */
struct file_draft {
	int fd;
	bool in_place;
	bool is_nameless;
	char path[4096];
	char temporary[4096];
};

MUST_CHECK bool file_draft_open(
	const char *path, mode_t mode, struct file_draft *draft, struct error *err);
MUST_CHECK bool file_draft_commit(struct file_draft *draft, struct error *err);

/* Fine after a commit, and for a zeroed draft. */
void file_draft_discard(struct file_draft *draft);

/*
 * Whether the agent may use the folder at `path`, which has this status: it belongs to the user
 * and is closed to all others (ERROR_DENIED, ERROR_USAGE).
 */
MUST_CHECK bool private_folder_check(
	const char *path, const struct stat *status, uid_t user, struct error *err);
