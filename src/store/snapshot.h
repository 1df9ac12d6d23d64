/* SPDX-License-Identifier: Apache-2.0 */
/* What a store (store/store.h) keeps, within which limits, and how it is queried. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* STORE_NO_OWNER: of a target behind another gateway, or kept by an earlier version. */
enum { SNAPSHOT_NAME_BYTES = 256, STORE_NO_OWNER = -1 };

struct snapshot {
	int64_t id; /* increases, and is never used twice */
	int64_t time_ms;

	/* The target. "" and 0: not known. */
	char target[128];
	int64_t owner;	   /* the user whose process it is, or STORE_NO_OWNER */
	char host[256];	   /* where it runs */
	char service[128]; /* what its processes on all hosts are called together */
	char version[64];  /* of that service */
	char labels[1024]; /* "zone=b,team=x" (store/identity.h) */
	int64_t pid;
	int64_t started_ms; /* of the process, as its agent says, or of the attach */
	bool is_attached;   /* the agent, into the running process */

	char reason[128];	 /* of a capture, "rss>2GiB"; "" of a regular one */
	uint64_t bytes[FIGURES]; /* an rss of 0, or 0 in all others: not known */
	int64_t gateway_ms;	 /* when the store was opened that kept it; set by reading, 0: not
				    known */
	int64_t sent_ms;	 /* when it was sent to a database; 0: not yet */
	uint64_t file_bytes;
	char file[SNAPSHOT_NAME_BYTES]; /* its name in the folder */

	/* Of a capture, borrowed, all three set by the caller: parts of its file's name, and a
	   JSON object without `file` and `bytes`. Not set by reading but for the last. */
	const char *tag, *stem, *details;
};

enum store_use { STORE_HISTORY, STORE_CAPTURES };

struct store_time_source;

/* What is above them is removed (store/retention.h). */
struct store_limits {
	int64_t keep_ms;		      /* 0: of any age */
	uint64_t bytes;			      /* of all files */
	uint64_t count;			      /* of snapshots; 0: any number */
	uint64_t free_bytes;		      /* that the disk keeps; 0: the store may fill it */
	const struct store_time_source *time; /* NULL: the machine's */
};

/*
 * Which snapshots. The history of a target is that of all processes of its name; a restarted one
 * goes on with it. A *process* is known by its pid and when it started.
 */
struct store_query {
	const char *target;	/* a name, or a pid; NULL: any */
	int64_t from_ms, to_ms; /* both included */
	int64_t pid;		/* 0: of any process */
	int64_t started_ms;	/* 0: of any */
	bool captured;		/* only what a watch captured */
};
