/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an archive, for the files that keep (archive.c), read and gather. */
#pragma once

#include <pthread.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "gateway/archive.h"
#include "gateway/archive_clock.h"
#include "gateway/archive_usage.h"

#define ARCHIVE_SUFFIX ".heap.zst"
/* In the order of enum memory_figure. */
#define ARCHIVE_FIGURE_COLUMNS "allocated, active, metadata, resident, mapped, retained, rss"

struct archive {
	char path[3000];
	int fd; /* of the folder, locked */
	struct archive_limits limits;
	int64_t opened_ms; /* on the clock of the machine */
	struct archive_clock clock;
	size_t listed_again;

	pthread_mutex_t mutex; /* of what follows */
	sqlite3 *index;
	struct archive_usage usage;
};

static inline pthread_mutex_t *archive_lock(struct archive *archive)
{
	pthread_mutex_lock(&archive->mutex);
	return &archive->mutex;
}

static inline void archive_unlock(pthread_mutex_t **mutex)
{
	pthread_mutex_unlock(*mutex);
}

/* Until the end of the scope. Before any statement, which must be gone by then. */
#define ARCHIVE_HOLD(archive)   \
	CLEANUP(archive_unlock) \
	__attribute__((unused)) pthread_mutex_t *held_ = archive_lock(archive)

static inline void statement_cleanup(sqlite3_stmt **statement)
{
	sqlite3_finalize(*statement);
}

/* What SQLite says. Returns false. */
bool archive_fail(struct archive *archive, struct error *err);

MUST_CHECK bool archive_prepare(
	struct archive *archive, const char *text, sqlite3_stmt **statement, struct error *err);

/*
 * Sets right what a kill, a full disk or the loss of the index left behind: profiles without rows
 * and rows without profiles. When the archive is opened.
 */
MUST_CHECK bool archive_repair(struct archive *archive, struct error *err);

/* When a moment was kept, on the archive's clock; by an earlier version on the machine's. */
#define ARCHIVE_KEPT_MS "(CASE kept_ms WHEN 0 THEN time_ms ELSE kept_ms END)"

/*
 * SELECT `columns` of the moments of the query that `more` ("AND ...", "") holds of as well, with
 * `tail` behind; its parameters ?1 to ?5 and ?7 are bound. A target is looked up by an index, by
 * its name alone or, where that could be one, by its pid as well.
 */
MUST_CHECK bool archive_prepare_query(struct archive *archive, const struct archive_query *query,
	const char *columns, const char *more, const char *tail, sqlite3_stmt **statement,
	struct error *err);

/* The last moment up to ?6, and the first of all. */
#define ARCHIVE_BEFORE "AND time_ms <= ?6"
#define ARCHIVE_LAST "ORDER BY time_ms DESC, id DESC LIMIT 1"
#define ARCHIVE_FIRST "ORDER BY time_ms, id LIMIT 1"

void archive_bind(sqlite3_stmt *statement, const struct archive_query *query);

/*
 * Whether the one at that position is among `most` of `count`, evenly spread with the first and the
 * last; positions ascend. `chosen` counts them and begins at 0.
 */
static inline bool archive_is_chosen(size_t at, size_t count, size_t most, size_t *chosen)
{
	if (count > most && (most < 2 || at * (most - 1) < *chosen * (count - 1)))
		return false;
	(*chosen)++;
	return true;
}
