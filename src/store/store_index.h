/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a store, for the files that keep (store.c), read and gather. */
#pragma once

#include <pthread.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "store/store.h"
#include "store/store_clock.h"
#include "store/store_usage.h"

#define STORE_SUFFIX ".heap.zst"
/* In the order of enum memory_figure. */
#define STORE_FIGURE_COLUMNS "allocated, active, metadata, resident, mapped, retained, rss"

struct store {
	char path[3000];
	int fd; /* of the folder, locked */
	struct store_limits limits;
	int64_t opened_ms; /* on the clock of the machine */
	struct store_clock clock;
	size_t listed_again;

	pthread_mutex_t mutex; /* of what follows */
	sqlite3 *index;
	struct store_usage usage;
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

/* What SQLite says. Returns false. */
bool store_fail(struct store *store, struct error *err);

MUST_CHECK bool store_prepare(
	struct store *store, const char *text, sqlite3_stmt **statement, struct error *err);

/*
 * Sets right what a kill, a full disk or the loss of the index left behind: profiles without rows
 * and rows without profiles. When the store is opened.
 */
MUST_CHECK bool store_repair(struct store *store, struct error *err);

/* When a snapshot was kept, on the store's clock; by an earlier version on the machine's. */
#define STORE_KEPT_MS "(CASE kept_ms WHEN 0 THEN time_ms ELSE kept_ms END)"

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
 * Whether the one at that position is among `most` of `count`, evenly spread with the first and the
 * last; positions ascend. `chosen` counts them and begins at 0.
 */
static inline bool store_is_chosen(size_t at, size_t count, size_t most, size_t *chosen)
{
	if (count > most && (most < 2 || at * (most - 1) < *chosen * (count - 1)))
		return false;
	(*chosen)++;
	return true;
}
