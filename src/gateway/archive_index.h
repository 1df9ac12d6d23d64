/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an archive, for the files that keep (archive.c), read and gather. */
#pragma once

#include <pthread.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "gateway/archive.h"

#define ARCHIVE_SUFFIX ".heap.zst"
/* In the order of gateway/memory_figures.h. */
#define ARCHIVE_FIGURE_COLUMNS "allocated, active, metadata, resident, mapped, retained, rss"

struct archive {
	char path[3000];
	int fd; /* of the folder, locked */
	struct archive_limits limits;
	int64_t opened_ms; /* on the clock of the machine */
	size_t listed_again;

	pthread_mutex_t mutex; /* of what follows */
	sqlite3 *index;
	int64_t profile_bytes; /* the sum of what its rows say */
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

/* The condition of a query, with its parameters ?1 to ?5 and ?7. */
#define ARCHIVE_OF_TARGET " (target = ?1 OR CAST(pid AS TEXT) = ?1) "
#define ARCHIVE_OF_QUERY                                                              \
	ARCHIVE_OF_TARGET "AND (?2 = 0 OR pid = ?2) AND (?3 = 0 OR started_ms = ?3) " \
			  "AND time_ms BETWEEN ?4 AND ?5 AND (?7 = 0 OR reason <> '') "

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
