/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What heapctl serve --history keeps: profiles and memory figures of its targets over days.
 *
 * A *moment* is a row of index.sqlite and the compressed profile beside it. A profile is on the
 * disk under its name before its row is written, and a row is on the disk before archive_add
 * returns: what was acknowledged survives a kill at any time and a loss of power. What is left of
 * an unfinished one is removed when the archive is opened. One process at a time; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json_writer.h"
#include "gateway/blob.h"

enum archive_figure {
	ARCHIVE_ALLOCATED,
	ARCHIVE_ACTIVE,
	ARCHIVE_METADATA,
	ARCHIVE_RESIDENT,
	ARCHIVE_MAPPED,
	ARCHIVE_RETAINED,
	ARCHIVE_RSS,
	ARCHIVE_FIGURES,
};
extern const char *const archive_figure_names[ARCHIVE_FIGURES];

struct archive_limits {
	int64_t keep_ms;
	uint64_t bytes; /* of compressed profiles */
};

enum { ARCHIVE_NAME_BYTES = 256 };

struct archive_moment {
	int64_t id;
	int64_t time_ms;
	char target[128];
	int64_t pid;
	char reason[128]; /* of a capture, "rss>2GiB"; "" of those that are kept every so often */
	uint64_t bytes[ARCHIVE_FIGURES];
	uint64_t file_bytes;	       /* of the compressed profile */
	char file[ARCHIVE_NAME_BYTES]; /* its name in the folder */
};

struct archive;

/* Makes the folder (0700) when it is not there. ERROR_STATE when another process has it. */
MUST_CHECK bool archive_open(const char *path, const struct archive_limits *limits,
	struct archive **archive, struct error *err);
void archive_close(struct archive *archive);

/* Valid until archive_close. */
const char *archive_folder(const struct archive *archive);

/*
 * Keeps a moment and sets its id and file, then removes what is too old, a few at a time, or too
 * much. The one just kept stays. What it leaves when it fails is no moment, and removed at the next
 * start at the latest.
 */
MUST_CHECK bool archive_add(struct archive *archive, struct archive_moment *moment,
	const void *profile, size_t size, struct error *err);

/* Appends an array of the moments of a target from one time to another, oldest first. */
MUST_CHECK bool archive_list(struct archive *archive, const char *target, int64_t from_ms,
	int64_t to_ms, struct json_writer *json, struct error *err);

/*
 * The last moment of a target not after that time, or the first of all; its profile, compressed.
 * `target` is a name or a pid. ERROR_NOT_FOUND.
 */
MUST_CHECK bool archive_get(struct archive *archive, const char *target, int64_t time_ms,
	struct archive_moment *moment, struct blob **profile, struct error *err);
