/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of snapshots: profiles in files, and index.sqlite, which has a row for each.
 *
 * It has one of two uses, which differ in the names of files and in what is said to users, and in
 * nothing else:
 *
 *	history		of heapctl serve, compressed:
 *			1700000000000-4711-redis-server.heap.zst
 *	captures	of heapctl watch:
 *			00000017-20261121T101500Z-rss2048MiB-redis-server.4711.heap
 *
 * The number of a capture is the snapshot's. captures.jsonl has a line of JSON for each,
 * for people and scripts; it is written from the index.
 *
 * A profile is on the disk under its name before its row is written, and a row is on the disk
 * before store_add and store_commit return: what was acknowledged survives a kill at any time and a
 * loss of power. What an earlier version wrote is taken over when the store is opened
 * (store/store_index.h), and what a kill, a full disk or the loss of the index left behind is
 * repaired (store/store_repair.h). A folder that is removed or replaced while it is in use is
 * opened again at the next snapshot. One process at a time keeps snapshots; any thread.
 */
#pragma once

#include "base/error.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "store/snapshot.h"

/* Snapshots in one answer, 220 bytes each: what a client may ask for, and what it gets otherwise.
 */
enum { TIMELINE_SNAPSHOTS_MAX = 20000, TIMELINE_SNAPSHOTS = 5000 };

struct store;

/*
 * Makes the folder (0700) when it is not there. ERROR_STATE when another process has it,
 * ERROR_DENIED when another user could change what is in it.
 */
MUST_CHECK bool store_open(const char *path, enum store_use use, const struct store_limits *limits,
	struct store **store, struct error *err);

/*
 * For reading alone, while another process or another part of this one may keep snapshots there.
 * ERROR_NOT_FOUND when there is no index.
 */
MUST_CHECK bool store_open_reader(
	const char *path, enum store_use use, struct store **store, struct error *err);

void store_close(struct store *store);

DEFINE_CLEANUP(store_cleanup, struct store *, store_close)

/*
 * Whether the folder was removed or replaced since the last call. Later snapshots are in the folder
 * that has its name now, which was checked like the first.
 */
bool store_take_replaced(struct store *store);

/* The number of profiles that were listed by their names, because there was no index. */
size_t store_relisted_count(const struct store *store);

/*
 * What was damaged in captures.jsonl when it was needed, once; NULL when nothing was. Without their
 * lines captures are listed by their names. Free the text.
 */
char *store_take_list_damage(struct store *store);

/* Valid until store_close. */
const char *store_folder(const struct store *store);

/* Other limits, from the next snapshot on. */
void store_set_limits(struct store *store, const struct store_limits *limits);

/*
 * Whether there is, or could be made, room for a snapshot like the last one; removes nothing.
 * ERROR_STATE with the reason.
 */
MUST_CHECK bool store_check_room(struct store *store, struct error *err);

/*
 * Keeps a snapshot and sets its id and file, then removes what is too old, a few at a time, or too
 * much (store/retention.h). The one just kept stays. Where the disk is short of room, what is above
 * the limits is removed before, but for the last snapshot of each target. One that fails leaves
 * nothing behind.
 */
MUST_CHECK bool store_add(struct store *store, struct snapshot *snapshot, const void *profile,
	size_t size, struct error *err);

/*
 * The same for a profile that comes piece by piece: write it to draft->fd, then commit, or discard
 * the draft. Makes room for one of the size of the last. For captures.
 */
MUST_CHECK bool store_begin(struct store *store, struct snapshot *snapshot,
	struct file_draft *draft, struct error *err);
MUST_CHECK bool store_commit(struct store *store, struct snapshot *snapshot,
	struct file_draft *draft, struct error *err);

/*
 * Takes a file from elsewhere into the store; `fd` is open on it. Moved when it is on the same
 * disk, else copied and removed. For captures.
 */
MUST_CHECK bool store_take(struct store *store, const char *path, int fd, struct snapshot *snapshot,
	struct error *err);

/*
 * Calls for each snapshot, oldest first; of more than `max` for so many, evenly spread, with the
 * first and the last. `total`: how many there are. Nothing may be called of the store meanwhile.
 */
MUST_CHECK bool store_each(struct store *store, const struct store_query *query, size_t max,
	void (*take)(void *context, const struct snapshot *snapshot), void *context, size_t *total,
	struct error *err);

/* Appends an array of the same. */
MUST_CHECK bool store_list(struct store *store, const struct store_query *query, size_t max,
	struct json_writer *json, size_t *total, struct error *err);

/* Appends an array of the processes that have snapshots, in the order of their first ones. */
MUST_CHECK bool store_list_processes(struct store *store, const struct store_query *query,
	struct json_writer *json, struct error *err);

/* Appends an array of the names that have snapshots. */
MUST_CHECK bool store_list_targets(
	struct store *store, struct json_writer *json, struct error *err);

/*
 * The last snapshot of the query not after that time, or the first of all, and a descriptor of its
 * file, which the caller closes. ERROR_NOT_FOUND.
 */
MUST_CHECK bool store_get(struct store *store, const struct store_query *query, int64_t time_ms,
	struct snapshot *snapshot, int *profile_fd, struct error *err);

/* That snapshot, of that target only (NULL: of any). ERROR_NOT_FOUND. */
MUST_CHECK bool store_get_id(struct store *store, const char *target, int64_t id,
	struct snapshot *snapshot, int *profile_fd, struct error *err);

/* The names that are in use, each with the user that had it last. */
MUST_CHECK bool store_each_owner(struct store *store,
	void (*take)(void *context, const char *target, int64_t owner), void *context,
	struct error *err);

struct store_series {
	int64_t first_id, last_id; /* with the count they show whether it has changed */
	size_t count;		   /* of the snapshots of the query */
	uint64_t bytes;		   /* of their files */
	int64_t owner;		   /* of the last one, or STORE_NO_OWNER */
	int64_t processes;
	uint64_t notes; /* a number that changes with the notes of the query (store/notes.h) */
};

/*
 * What a series of profiles would be made of. ERROR_NOT_FOUND when there are fewer than two;
 * ERROR_STATE when processes ran at the same time, which are no series.
 */
MUST_CHECK bool store_series_look(struct store *store, const struct store_query *query,
	struct store_series *series, struct error *err);

/*
 * Writes a tar of the query's profiles to `out`, oldest first; its members are called
 * "TIME_MS-PID.heap.zst". Notes are behind them (store/notes.h). Evenly chosen when there are more
 * than `max`, or their files have more than `max_bytes` together.
 */
MUST_CHECK bool store_series_gather(struct store *store, const struct store_query *query,
	size_t max, uint64_t max_bytes, int out, struct error *err);

/*
 * The store as a spool: the first snapshot after that id that was not sent yet, with a descriptor
 * of its file. ERROR_NOT_FOUND. This and store_mark_sent also of a store that is open for reading:
 * another process may keep snapshots there meanwhile.
 */
MUST_CHECK bool store_next_unsent(struct store *store, int64_t after_id, struct snapshot *snapshot,
	int *profile_fd, struct error *err);

/* Marks it as sent; not an error when it was removed meanwhile. */
MUST_CHECK bool store_mark_sent(
	struct store *store, int64_t id, int64_t sent_ms, struct error *err);

/* How many were not sent yet, and when the oldest of them was taken (0: there is none). */
MUST_CHECK bool store_count_unsent(
	struct store *store, uint64_t *count, int64_t *oldest_ms, struct error *err);
