/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bundle: what was captured of a process in one file, for another machine (docs/bundle.md). It is
 * a tar archive (POSIX ustar) of regular files, so that any tar can open it; the whole archive may
 * be compressed like any profile. The first member is BUNDLE_ABOUT.
 *
 * As a profile format a bundle means its member BUNDLE_PROFILE. Members of unknown names are
 * skipped; a damaged header, a member that extends past the end, and a truncated archive are
 * refused with the offset.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

/*
 * Tar archives (POSIX ustar) of regular files with short names: what bundles and series of profiles
 * are kept in, because every system has tools for them.
 */
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

#define BUNDLE_ABOUT "heapctl-bundle.json"
#define BUNDLE_PROFILE "profile.heap"
enum { BUNDLE_FORMAT = 1 };

/* Whether a bundle with this BUNDLE_ABOUT is of the supported format. */
MUST_CHECK bool bundle_check(const struct cursor *about, struct error *err);

/*
 * The bytes of a member of an uncompressed bundle; data NULL when it has none of that name. False,
 * with the problem in the cursor, when the archive is damaged. The cursor begins at the archive's
 * start and moves anywhere.
 */
MUST_CHECK bool bundle_find(struct cursor *in, const char *name, struct cursor *member);
