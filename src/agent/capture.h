/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile taken now, in a file without a name: a memfd, or where that or /proc is missing a file
 * in the agent's private folder that is unlinked at once. Also copies it to a descriptor or a path.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/descriptor.h"
#include "agent/folder.h"
#include "allocator/allocator.h"

struct captured_profile {
	struct descriptor file; /* read it with pread from offset 0 */
	uint64_t size_bytes;
	uint64_t stack_count;
	int64_t time_ms;     /* when, since 1970 */
	int64_t duration_ms; /* how long jemalloc took */
	bool has_mappings;   /* at its end, where readers skip lines that they do not know */
};

#define CAPTURE_NONE ((struct captured_profile){ .file = DESCRIPTOR_NONE })

/* Notes the program's path, for profiles of a process that has lost its /proc since. */
void capture_learn_program(void);

/* `folder` may have an empty path when there is none. */
MUST_CHECK bool capture_take(struct allocator *allocator, const struct folder *folder,
	struct captured_profile *capture, struct error *err);

/* Appends a line; where it cannot be written, the profile stays as it was. */
void capture_append(struct captured_profile *capture, const char *line);

static inline void capture_release(struct captured_profile *capture)
{
	descriptor_close(&capture->file);
}

/* Copies a profile's file, from its first byte, to `fd`. Waits until the reader takes it. */
MUST_CHECK bool capture_copy_to_fd(const struct descriptor *file, int fd, struct error *err);

/*
 * Copies it to a path, mode 0600, complete or not at all, replacing an older file. A pipe or a
 * device is written into, and may block.
 */
MUST_CHECK bool capture_copy_to_path(
	const struct descriptor *file, const char *path, struct error *err);
