/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a store, for its files: the index, its lock, and what depends on the store's use.
 *
 * PRAGMA user_version says by which rules the index was made. 0: by a heapctl that called the table
 * `moment`, if it is there; it becomes the table of today in one transaction.
 */
#pragma once

#include <pthread.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "store/capture_list.h"
#include "store/snapshot.h"

/*
 * How old a snapshot is. The machine's clock may be set while a gateway runs, by hand or by NTP,
 * and may be wrong after a boot; a jump would make everything too old. So the store has a clock of
 * its own, kept in its index: within a boot it advances with the kernel's boot-time clock, which
 * cannot be set and includes suspended time. Across a boot it advances by the machine's clock, but
 * by at most half of the retention time, so that a machine that was down for days keeps its
 * snapshots for a while.
 */
/* Of the machine, or a test's. */
struct store_time_source {
	int64_t (*since_boot_ms)(void);
	int64_t (*since_1970_ms)(void);
	int64_t boot; /* a number of this boot's own; 0 when it is not known */
};

/* When the last snapshot was kept. */
struct store_clock_mark {
	int64_t kept_ms; /* on the store's clock; 0 in an index of an earlier version */
	int64_t boot, since_boot_ms, since_1970_ms;
};

struct store_clock {
	struct store_time_source source;
	int64_t ahead_ms; /* of the clock since the boot */
};

/* The machine's. */
struct store_time_source store_time_source_get(void);

/* Goes on from the mark; NULL for an empty store. */
void store_clock_init(struct store_clock *clock, const struct store_time_source *source,
	const struct store_clock_mark *last, int64_t keep_ms);

/* Now. */
int64_t store_clock_ms(const struct store_clock *clock);

/* In the order of enum memory_figure. */
#define STORE_FIGURE_COLUMNS "allocated, active, metadata, resident, mapped, retained, rss"

struct store_format {
	const char *suffix;
	unsigned min_digits; /* of the number that a name begins with */
	bool is_compressed;
	bool has_list;	 /* captures.jsonl */
	bool makes_room; /* on a full disk, also where nothing is above the limits */
	const char *contents, *busy, *busy_hint, *free_option;
};

/* Bytes and number of what one target of one user has; gateway/backend.h says why by user. */
struct store_share {
	char target[128];
	int64_t owner; /* a user, STORE_NO_OWNER */
	int64_t bytes, owner_bytes;
};

struct store_usage {
	struct store_share *items;
	size_t count, capacity;
	int64_t bytes, snapshots; /* of all */
};

struct store {
	char path[3000];
	const struct store_format *format;
	int fd;		   /* of the folder, locked */
	int64_t opened_ms; /* on the clock of the machine */
	size_t relisted_count;
	struct capture_list_damage list_damage; /* of the list that files were looked up in */

	pthread_mutex_t mutex; /* of what follows */
	struct store_limits limits;
	struct store_clock clock;
	sqlite3 *index;
	struct store_usage usage;
	int64_t last_id;
	uint64_t last_bytes; /* of the newest file */
	bool was_replaced;   /* the folder was, since the last query */
	bool is_damaged; /* SQLite has found the index to be; opened anew at the next snapshot */
	bool is_reader;
};

static inline pthread_mutex_t *store_lock(struct store *store)
{
	pthread_mutex_lock(&store->mutex);
	return &store->mutex;
}

static inline void store_unlock(pthread_mutex_t **mutex)
{
	pthread_mutex_unlock(*mutex);
}

/* Until the end of the scope. Before any statement, which must be gone by then. */
#define STORE_HOLD(store)     \
	CLEANUP(store_unlock) \
	__attribute__((unused)) pthread_mutex_t *held_ = store_lock(store)

DEFINE_CLEANUP(statement_cleanup, sqlite3_stmt *, sqlite3_finalize)

/*
 * Opens store->path/index.sqlite, and makes it or brings it up to date unless it is only read.
 * ERROR_UNSUPPORTED when a newer version has made it.
 */
MUST_CHECK bool store_index_open(struct store *store, bool is_reader, struct error *err);

/*
 * Opens the folder again when it, or its index, was removed, replaced or damaged; ids continue.
 * Before each change; the mutex is held. Does nothing to a store that is only read.
 */
MUST_CHECK bool store_reopen(struct store *store, struct error *err);

/* What SQLite says. Returns false. */
bool store_fail(struct store *store, struct error *err);

MUST_CHECK bool store_prepare(
	struct store *store, const char *text, sqlite3_stmt **statement, struct error *err);

MUST_CHECK bool store_execute(struct store *store, const char *text, struct error *err);

/* The first column of the first row; 0 when there is none, or it goes wrong. */
int64_t store_number(struct store *store, const char *query);

/* When a snapshot was kept, on the store's clock; by an earlier version on the machine's. */
#define STORE_KEPT_MS "(CASE kept_ms WHEN 0 THEN time_ms ELSE kept_ms END)"

/* All but the file's fields and the borrowed ones; `details` is the whole text for the row. */
MUST_CHECK bool store_insert(struct store *store, const struct snapshot *snapshot,
	const char *details, int64_t kept_ms, struct error *err);

/*
 * SELECT `columns` of the snapshots of the query that `more` ("AND ...", "") holds of as well, with
 * `tail` behind; its parameters ?1 to ?5 and ?7 are bound. A target is looked up by an index, by
 * its name alone or, where that could be one, by its pid as well.
 */
MUST_CHECK bool store_prepare_query(struct store *store, const struct store_query *query,
	const char *columns, const char *more, const char *tail, sqlite3_stmt **statement,
	struct error *err);

/* The last snapshot up to ?6, and the first of all. */
#define STORE_BEFORE "AND time_ms <= ?6"
#define STORE_LAST "ORDER BY time_ms DESC, id DESC LIMIT 1"
#define STORE_FIRST "ORDER BY time_ms, id LIMIT 1"

/*
 * Repairs what a kill, a full disk, the loss of the index or an earlier version left, when a store
 * is opened: unfinished files are removed, rows without a file are removed, files without a row get
 * one, with the time and the target in their names, and for captures the rest in captures.jsonl.
 *
 * Sets last_id and relisted_count. The mutex is held, or the store is not shared yet.
 */
MUST_CHECK bool store_repair(struct store *store, struct error *err);
