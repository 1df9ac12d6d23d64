/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of captures, bounded by their number, their bytes and the space that must stay free
 * on the disk. Names begin with a number that only grows, so that they sort by time even if the
 * clock was set meanwhile:
 *
 *	00000017-20261121T101500Z-rss2048MiB-redis-server.4711.heap
 *
 * A capture appears under its name when all of it is on the disk. Room is made by removing the
 * oldest, after the new one is safe; before that only as far as the disk would be full, and never
 * the newest; where even that would not leave what the disk shall keep free, none is removed.
 * `captures.jsonl` beside them, the *catalogue*, has a line of JSON for each; what a kill or a full
 * disk kept out of it is added when the folder is opened. A folder that was removed is made
 * again at the next capture; one that was put in its place is taken. One process at a time; any
 * thread, except that opening and closing are for one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "base/file.h"

#define CAPTURE_CATALOGUE "captures.jsonl"

struct capture_limits {
	size_t count;
	uint64_t bytes;
	uint64_t free_bytes; /* that the disk keeps */
};

struct capture_folder;

/* Makes the folder (0700) when it is not there. ERROR_STATE when another process uses it. */
MUST_CHECK bool capture_folder_open(const char *path, const struct capture_limits *limits,
	struct capture_folder **folder, struct error *err);
void capture_folder_close(struct capture_folder *folder);

static inline void capture_folder_cleanup(struct capture_folder **folder)
{
	capture_folder_close(*folder);
}

/*
 * Begins the next capture: write to draft->fd. `tag` and `stem` become part of the name. Makes
 * room for one of the size of the last; ERROR_STATE when there is none.
 */
MUST_CHECK bool capture_folder_begin(struct capture_folder *folder, const char *tag,
	const char *stem, struct file_draft *draft, struct error *err);

/*
 * Makes it last, catalogues it with `details` (a JSON object, whose reference is taken over even
 * on failure), then removes what is too much.
 */
MUST_CHECK bool capture_folder_commit(struct capture_folder *folder, struct file_draft *draft,
	json_t *details, struct error *err);

/*
 * Takes a file from elsewhere into the folder; `fd` is open on it. Moved when it is on the same
 * disk, else copied and removed. Path of the new file in `kept`.
 */
MUST_CHECK bool capture_folder_take(struct capture_folder *folder, const char *path, int fd,
	const char *tag, const char *stem, json_t *details, char kept[4096], struct error *err);

/*
 * Whether there is, or could be made, room for a capture now; removes nothing. ERROR_STATE with the
 * reason: worth a line before the moment comes.
 */
MUST_CHECK bool capture_folder_check(struct capture_folder *folder, struct error *err);

/* Other limits, from the next capture on. */
void capture_folder_limit(struct capture_folder *folder, const struct capture_limits *limits);
