/* SPDX-License-Identifier: Apache-2.0 */
#include "store/retention.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/byte_size.h"
#include "base/xalloc.h"
#include "store/store_index.h"
#include "store/store_usage.h"

enum {
	/* Snapshots that age may cost for each that is added: a clock that jumps ahead must not
	   cost all. */
	AGED_MOST = 8,
	/* For the index and its log. */
	SLACK_BYTES = 64 * 1024,
};

/* What may go. The second is the third, but quick where only the oldest row is looked for. */
#define ANY "1"
#define HAS_LATER                                                                  \
	"EXISTS (SELECT 1 FROM moment AS later WHERE later.target = moment.target" \
	" AND later.owner = moment.owner AND later.id > moment.id)"
#define NOT_LAST "id NOT IN (SELECT max(id) FROM moment GROUP BY owner, target)"

static int delete_row(const struct retention *retention, sqlite3_int64 id)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(retention->index, "DELETE FROM moment WHERE id = ?1", -1, &statement,
		    NULL) != SQLITE_OK)
		return SQLITE_ERROR;
	sqlite3_bind_int64(statement, 1, id);
	return sqlite3_step(statement);
}

enum outcome {
	REMOVED,
	NOTHING, /* there to be removed, or it went wrong */
	NO_ROOM, /* even the removal of a row needs some in the index's log */
};

/* The row first: a profile without one is removed at the next start, a row without one is a lie. */
static enum outcome remove_row(const struct retention *retention, sqlite3_stmt *row)
{
	const sqlite3_int64 id = sqlite3_column_int64(row, 0);
	const int64_t bytes = sqlite3_column_int64(row, 2), owner = sqlite3_column_int64(row, 4);
	char name[SNAPSHOT_NAME_BYTES], target[128];

	snprintf(name, sizeof name, "%s", (const char *)sqlite3_column_text(row, 1));
	snprintf(target, sizeof target, "%s", (const char *)sqlite3_column_text(row, 3));
	sqlite3_reset(row);
	const int step = delete_row(retention, id);
	if (step != SQLITE_DONE)
		return step == SQLITE_FULL ? NO_ROOM : NOTHING;
	store_usage_add(retention->usage, target, owner, -bytes);
	unlinkat(retention->folder_fd, name, 0);
	return REMOVED;
}

#define ROW "SELECT id, file, bytes, target, owner FROM moment "

/* The oldest snapshot that may go and is older than the limit; never `newest`. */
static enum outcome remove_older(
	const struct retention *retention, int64_t newest, const char *may_go, int64_t limit_ms)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *row = NULL;
	CLEANUP(free_cleanup)
	char *query = xasprintf(
		ROW "WHERE id <> ?1 AND %s AND " STORE_KEPT_MS " < ?2 ORDER BY id LIMIT 1", may_go);

	if (sqlite3_prepare_v2(retention->index, query, -1, &row, NULL) != SQLITE_OK)
		return NOTHING;
	sqlite3_bind_int64(row, 1, newest);
	sqlite3_bind_int64(row, 2, limit_ms);
	return sqlite3_step(row) == SQLITE_ROW ? remove_row(retention, row) : NOTHING;
}

/* The oldest that may go of the target that has most, or of the next; never `newest`. */
static enum outcome remove_largest(
	const struct retention *retention, int64_t newest, const char *may_go)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *row = NULL;
	CLEANUP(free_cleanup)
	char *query = xasprintf(ROW "INDEXED BY moment_owner WHERE owner = ?2 AND target = ?3 "
				    "AND id <> ?1 AND %s ORDER BY id LIMIT 1",
		may_go);
	const struct store_share *const shares = store_usage_sort(retention->usage);

	if (sqlite3_prepare_v2(retention->index, query, -1, &row, NULL) != SQLITE_OK)
		return NOTHING;
	for (size_t i = 0; i < retention->usage->count; i++) {
		sqlite3_reset(row);
		sqlite3_bind_int64(row, 1, newest);
		sqlite3_bind_int64(row, 2, shares[i].owner);
		sqlite3_bind_text(row, 3, shares[i].target, -1, SQLITE_TRANSIENT);
		if (sqlite3_step(row) == SQLITE_ROW)
			return remove_row(retention, row);
	}
	return NOTHING;
}

/* True when the last of them found no room. */
static bool remove_aged(const struct retention *retention, int64_t newest, const char *may_go,
	int64_t now_ms, unsigned *count)
{
	enum outcome outcome = REMOVED;

	for (unsigned i = 0; i < AGED_MOST && outcome == REMOVED; i++) {
		outcome = remove_older(
			retention, newest, may_go, now_ms - retention->limits->keep_ms);
		*count += outcome == REMOVED;
	}
	return outcome == NO_ROOM;
}

static int64_t most_bytes(const struct retention *retention)
{
	const uint64_t bytes = retention->limits->bytes;

	return bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
}

/* The same. */
static bool remove_bytes(
	const struct retention *retention, int64_t newest, const char *may_go, unsigned *count)
{
	enum outcome outcome = REMOVED;

	while (outcome == REMOVED && retention->usage->bytes > most_bytes(retention)) {
		outcome = remove_largest(retention, newest, may_go);
		*count += outcome == REMOVED;
	}
	return outcome == NO_ROOM;
}

static int64_t ask_number(const struct retention *retention, const char *query)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(retention->index, query, -1, &statement, NULL) != SQLITE_OK ||
		sqlite3_step(statement) != SQLITE_ROW)
		return 0;
	return sqlite3_column_int64(statement, 0);
}

/* All of them at once: each transaction costs some pages of the index's log. */
static bool delete_rows(const struct retention *retention, const sqlite3_int64 *ids, size_t count)
{
	bool ok = sqlite3_exec(retention->index, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;

	for (size_t i = 0; ok && i < count; i++)
		ok = delete_row(retention, ids[i]) == SQLITE_DONE;
	ok = ok && sqlite3_exec(retention->index, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
	if (!ok)
		(void)sqlite3_exec(retention->index, "ROLLBACK", NULL, NULL, NULL);
	return ok;
}

/* The index's log may hold megabytes that are in the index by now. */
static void shorten_log(const struct retention *retention)
{
	(void)sqlite3_wal_checkpoint_v2(
		retention->index, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

/*
 * Where the disk has no room even for removing a row, profiles go first, in the order in which
 * their snapshots would, until it has; then their rows. Should the program end in between, those
 * are removed at its next start. `any`: not only what is above the limits.
 */
static bool force(const struct retention *retention, int64_t now_ms, bool any)
{
	CLEANUP(free_cleanup) sqlite3_int64 *doomed = NULL;
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	int64_t left = retention->usage->bytes;
	const struct store_share *const shares = store_usage_sort(retention->usage);
	size_t count = 0, capacity = 0;
	unsigned aged = 0;
	bool has_room = false;

	if (sqlite3_prepare_v2(retention->index,
		    "SELECT id, file, bytes, " STORE_KEPT_MS " < ?1 FROM moment WHERE " NOT_LAST
		    " ORDER BY " STORE_KEPT_MS " < ?1 DESC, owner = ?2 DESC, id",
		    -1, &statement, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_int64(statement, 1, now_ms - retention->limits->keep_ms);
	sqlite3_bind_int64(
		statement, 2, retention->usage->count == 0 ? STORE_NO_OWNER : shares[0].owner);
	while (!has_room && sqlite3_step(statement) == SQLITE_ROW) {
		const bool is_aged = sqlite3_column_int(statement, 3) != 0 && aged < AGED_MOST;
		if (!any && !is_aged && left <= most_bytes(retention))
			break;
		aged += is_aged;
		left -= sqlite3_column_int64(statement, 2);
		doomed = xgrow(doomed, &capacity, count + 1, sizeof *doomed);
		doomed[count++] = sqlite3_column_int64(statement, 0);
		unlinkat(retention->folder_fd, (const char *)sqlite3_column_text(statement, 1), 0);
		has_room = delete_rows(retention, doomed, count);
	}
	sqlite3_reset(statement);
	/* Whose they were does not matter to a full disk; it is counted anew. */
	if (has_room) {
		store_usage_deinit(retention->usage);
		(void)store_usage_load(retention->usage, retention->index);
	}
	shorten_log(retention);
	return has_room;
}

static uint64_t free_bytes(const struct retention *retention)
{
	struct statvfs disk;

	return fstatvfs(retention->folder_fd, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize
							  : UINT64_MAX;
}

/* Until so much is free, or nothing is left that may go. */
static bool free_disk(
	const struct retention *retention, int64_t newest, uint64_t wanted_bytes, int64_t now_ms)
{
	while (free_bytes(retention) < wanted_bytes) {
		const enum outcome outcome = remove_largest(retention, newest, HAS_LATER);
		if (outcome == NOTHING || (outcome == NO_ROOM && !force(retention, now_ms, true)))
			return false;
	}
	return true;
}

bool retention_free_surplus(const struct retention *retention, int64_t now_ms)
{
	unsigned count = 0;
	bool is_stuck;

	do {
		is_stuck = remove_aged(retention, 0, HAS_LATER, now_ms, &count) ||
			   remove_bytes(retention, 0, HAS_LATER, &count);
		count += is_stuck;
	} while (is_stuck && force(retention, now_ms, false));
	shorten_log(retention);
	return count > 0;
}

bool retention_make_room(
	const struct retention *retention, uint64_t bytes, int64_t now_ms, struct error *err)
{
	char text[BYTE_SIZE_TEXT_BYTES];
	const uint64_t needed = bytes + SLACK_BYTES, floor = retention->limits->free_bytes;

	if (free_bytes(retention) >= floor + needed)
		return true;
	shorten_log(retention);
	(void)retention_free_surplus(retention, now_ms);
	const uint64_t now_free = free_bytes(retention);
	/* Without a floor a full disk is found out by writing to it. */
	if (floor == 0 || now_free >= floor + needed)
		return true;
	const uint64_t removable =
		(uint64_t)ask_number(retention, "SELECT sum(bytes) FROM moment WHERE " NOT_LAST);
	if (now_free + removable >= floor + needed && free_disk(retention, 0, needed, now_ms))
		return true;
	byte_size_format(floor, text);
	error_set(err, ERROR_STATE, "%s: less than %s would stay free on its disk",
		retention->folder, text);
	return error_hint(err, "make room, or allow less with --history-free");
}

void retention_apply(const struct retention *retention, int64_t newest, int64_t now_ms)
{
	unsigned ignored = 0;

	(void)remove_aged(retention, newest, ANY, now_ms, &ignored);
	(void)remove_bytes(retention, newest, HAS_LATER, &ignored);
	(void)remove_bytes(retention, newest, ANY, &ignored);
	if (retention->limits->free_bytes > 0)
		(void)free_disk(retention, newest, retention->limits->free_bytes, now_ms);
}
