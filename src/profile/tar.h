/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tar archives (POSIX ustar) of regular files with short names: what bundles and series of profiles
 * are kept in, because every system has tools for them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cursor.h"

enum {
	TAR_BLOCK = 512,
	TAR_NAME_BYTES = 100,
};

struct tar_member {
	char name[TAR_NAME_BYTES + 1];
	bool is_file;	 /* a regular one */
	int64_t time_ms; /* whole seconds */
	struct cursor data;
};

/* Whether a header with a valid checksum is at the cursor. */
bool tar_detect(struct cursor in);

/*
 * The next member, whatever it is. False at the end of the archive, and when it is damaged: then
 * the cursor has the problem and is at the member.
 */
bool tar_next(struct cursor *in, struct tar_member *member);

/* Reads on to the archive's end. False when it is damaged or truncated. */
MUST_CHECK bool tar_check_end(struct cursor *in);

/* The header of a member, whose name is shorter than TAR_NAME_BYTES. */
void tar_header(char header[TAR_BLOCK], const char *name, uint64_t size, int64_t time_ms);

/* How many zeros fill the last block of that many bytes. */
size_t tar_padding(uint64_t size);

/* Appends a member with header and padding. */
void tar_append(
	struct buffer *out, const char *name, const void *data, size_t size, int64_t time_ms);

/* Ends the archive. */
void tar_finish(struct buffer *out);
