/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What heapctl serve --history keeps: profiles and memory figures of its targets over days.
 *
 * A *snapshot* is a row of index.sqlite and the compressed profile beside it. A profile is on the
 * disk under its name before its row is written, and a row is on the disk before store_add
 * returns: what was acknowledged survives a kill at any time and a loss of power. What is left of
 * an unfinished one is removed when the store is opened. One process at a time; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json_writer.h"

struct store_time_source;

struct store_limits {
	int64_t keep_ms;
	uint64_t bytes;			      /* of compressed profiles */
	uint64_t free_bytes;		      /* that the disk keeps; 0: the history may fill it */
	const struct store_time_source *time; /* NULL: the machine's */
};

/* STORE_NO_OWNER: of a target behind another gateway, or kept by an earlier version. */
enum { SNAPSHOT_NAME_BYTES = 256, STORE_NO_OWNER = -1 };

/* Snapshots in one answer, 220 bytes each: what a client may ask for, and what it gets otherwise.
 */
enum { TIMELINE_SNAPSHOTS_MAX = 20000, TIMELINE_SNAPSHOTS = 5000 };

/* The memory of a target at one time, in bytes. */
enum memory_figure {
	FIGURE_ALLOCATED,
	FIGURE_ACTIVE,
	FIGURE_METADATA,
	FIGURE_RESIDENT, /* by the allocator's own count */
	FIGURE_MAPPED,
	FIGURE_RETAINED,
	FIGURE_RSS, /* by the kernel's; last, as an agent's status does not have it */
	FIGURES,
};

/* As in an agent's status, in JSON and in the index. */
extern const char *const memory_figure_names[FIGURES];

struct snapshot {
	int64_t id;
	int64_t time_ms;
	char target[128];
	int64_t owner; /* the user whose process it is, or STORE_NO_OWNER */
	int64_t pid;
	int64_t started_ms; /* of the process, as its agent says; 0 when it is not known */
	int64_t gateway_ms; /* when the store was opened that kept it; set by reading, 0: not
			       known */
	char reason[128];   /* of a capture, "rss>2GiB"; "" of those that are kept every so often */
	uint64_t bytes[FIGURES];	/* all 0 when the index was lost since */
	uint64_t file_bytes;		/* of the compressed profile */
	char file[SNAPSHOT_NAME_BYTES]; /* its name in the folder */
};

struct store;

/*
 * Makes the folder (0700) when it is not there. ERROR_STATE when another process has it,
 * ERROR_DENIED when another user could change what is in it.
 */
MUST_CHECK bool store_open(const char *path, const struct store_limits *limits,
	struct store **store, struct error *err);
void store_close(struct store *store);

/* How many profiles were listed by their names alone, because the index was gone. */
size_t store_listed_again(const struct store *store);

/* Valid until store_close. */
const char *store_folder(const struct store *store);

/*
 * Keeps a snapshot and sets its id and file, then removes what is too old, a few at a time, or too
 * much (store/retention.h). The one just kept stays. Where the disk is short of room, what is
 * above the limits goes before, but for the last snapshot of each target. What it leaves when it
 * fails is no snapshot, and removed at the next start at the latest.
 */
MUST_CHECK bool store_add(struct store *store, struct snapshot *snapshot, const void *profile,
	size_t size, struct error *err);

/*
 * Which snapshots. The history of a target is that of all processes of its name; a restarted one
 * goes on with it. A *process* is told by its pid and when it started.
 */
struct store_query {
	const char *target;	/* a name, or a pid */
	int64_t from_ms, to_ms; /* both included */
	int64_t pid;		/* 0: of any process */
	int64_t started_ms;	/* 0: of any */
	bool captured;		/* only what a watch captured */
};

/*
 * Appends an array of the snapshots, oldest first; of more than `most` so many, evenly spread, with
 * the first and the last. `total`: how many there are.
 */
MUST_CHECK bool store_list(struct store *store, const struct store_query *query, size_t most,
	struct json_writer *json, size_t *total, struct error *err);

/* Appends an array of the processes that have snapshots, in the order of their first ones. */
MUST_CHECK bool store_list_processes(struct store *store, const struct store_query *query,
	struct json_writer *json, struct error *err);

/* Appends an array of the names that have snapshots. */
MUST_CHECK bool store_list_targets(
	struct store *store, struct json_writer *json, struct error *err);

/*
 * The last snapshot of the query not after that time, or the first of all, and a descriptor of its
 * compressed profile, which the caller closes. ERROR_NOT_FOUND.
 */
MUST_CHECK bool store_get(struct store *store, const struct store_query *query, int64_t time_ms,
	struct snapshot *snapshot, int *profile_fd, struct error *err);

/* That snapshot, of that target only. ERROR_NOT_FOUND. */
MUST_CHECK bool store_get_id(struct store *store, const char *target, int64_t id,
	struct snapshot *snapshot, int *profile_fd, struct error *err);

/*
 * The names that are in use, each with the user who had it last.
 */
MUST_CHECK bool store_each_owner(struct store *store,
	void (*take)(void *context, const char *target, int64_t owner), void *context,
	struct error *err);

struct store_series {
	int64_t first_id, last_id; /* with the count they tell whether it has changed */
	size_t count;		   /* of the snapshots of the query */
	int64_t processes;
};

/*
 * What a series of profiles would be made of. ERROR_NOT_FOUND when there are fewer than two;
 * ERROR_STATE when processes ran at the same time, which are no series.
 */
MUST_CHECK bool store_series_look(struct store *store, const struct store_query *query,
	struct store_series *series, struct error *err);

/*
 * Writes a tar of the query's compressed profiles to `out`, oldest first; its members are called
 * "TIME_MS-PID.heap.zst". Evenly chosen when there are more than `most`, or their files have more
 * than `most_bytes` together.
 */
MUST_CHECK bool store_series_gather(struct store *store, const struct store_query *query,
	size_t most, uint64_t most_bytes, int out, struct error *err);
