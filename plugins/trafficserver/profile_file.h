/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles as files: <prof_prefix>.<pid>.<seq>.h<seq>.heap, seq counting from 0. These are
 * jemalloc's names with a letter that jemalloc does not use, so its own dumps never have the same
 * name. Mode 0600. A file appears complete or not at all (where the file system has O_TMPFILE) and
 * never replaces another.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "heapctl.h"

struct profile_files {
	unsigned next; /* the number to try first */
};

/* Writes the contents of the file to `fd`, as heapctl_dump_fd does. */
struct profile_source {
	int (*write)(int64_t run_id, int fd, struct heapctl_error *err);
	int64_t run_id;
};

/*
 * Writes it and returns the file's path and size. On failure `path` is the last path that was
 * tried.
 */
bool profile_file_write(struct profile_files *files, const char *prefix,
	const struct profile_source *source, char path[PATH_MAX], uint64_t *size_bytes,
	struct heapctl_error *err);

/* The absolute prefix, and whether files with it can be made: else the reason in `err`. */
bool profile_file_check(const char *prefix, char path[PATH_MAX], struct heapctl_error *err);
