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
#include "store/snapshot.h"
#include "store/store_clock.h"

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
	size_t listed_again;

	pthread_mutex_t mutex; /* of what follows */
	struct store_limits limits;
	struct store_clock clock;
	sqlite3 *index;
	struct store_usage usage;
	int64_t last_id;
	uint64_t last_bytes; /* of the newest file */
	bool is_damaged; /* SQLite has found the index to be; opened anew at the next snapshot */
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

static inline void statement_cleanup(sqlite3_stmt **statement)
{
	sqlite3_finalize(*statement);
}

/*
 * Opens store->path/index.sqlite, and makes it or brings it up to date unless it is only read.
 * ERROR_UNSUPPORTED when a newer version has made it.
 */
MUST_CHECK bool store_index_open(struct store *store, bool is_reader, struct error *err);

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

void store_bind(sqlite3_stmt *statement, const struct store_query *query);

/*
 * Whether the one at that position is among `max` of `count`, evenly spread with the first and the
 * last; positions ascend. `chosen` counts them and begins at 0.
 */
static inline bool store_is_chosen(size_t at, size_t count, size_t max, size_t *chosen)
{
	if (count > max && (max < 2 || at * (max - 1) < *chosen * (count - 1)))
		return false;
	(*chosen)++;
	return true;
}
