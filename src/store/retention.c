/* SPDX-License-Identifier: Apache-2.0 */
#include "store/retention.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/units.h"
#include "base/xalloc.h"

enum {
	/*
	 * Snapshots removed for their age per added one: a clock that jumps ahead must not remove
	 * all.
	 */
	AGED_MAX = 8,
	/* For the index and its log. */
	SLACK_BYTES = 64 * 1024,
};

/* What may be removed. The second is the third, but quick where only the oldest row is wanted. */
#define ANY "1"
#define HAS_LATER                                                                      \
	"EXISTS (SELECT 1 FROM snapshot AS later WHERE later.target = snapshot.target" \
	" AND later.owner = snapshot.owner AND later.id > snapshot.id)"
#define NOT_LAST "id NOT IN (SELECT max(id) FROM snapshot GROUP BY owner, target)"

void store_usage_deinit(struct store_usage *usage)
{
	free(usage->items);
	*usage = (struct store_usage){ 0 };
}

static struct store_share *find_share(struct store_usage *usage, const char *target, int64_t owner)
{
	for (size_t i = 0; i < usage->count; i++) {
		if (usage->items[i].owner == owner && strcmp(usage->items[i].target, target) == 0)
			return &usage->items[i];
	}
	struct store_share *const share = XAPPEND(usage->items, usage->count, usage->capacity);
	*share = (struct store_share){ .owner = owner };
	snprintf(share->target, sizeof share->target, "%s", target);
	return share;
}

static void count_snapshots(
	struct store_usage *usage, const char *target, int64_t owner, int64_t bytes, int64_t count)
{
	struct store_share *const share = find_share(usage, target, owner);

	share->bytes += bytes;
	usage->bytes += bytes;
	usage->snapshots += count;
	if (share->bytes <= 0)
		*share = usage->items[--usage->count];
}

void store_usage_add(struct store *store, const char *target, int64_t owner, int64_t bytes)
{
	count_snapshots(&store->usage, target, owner, bytes, 1);
}

bool store_usage_load(struct store *store, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *rows = NULL;
	int step;

	store_usage_deinit(&store->usage);
	if (!store_prepare(store,
		    "SELECT target, owner, sum(bytes), count(*) FROM snapshot "
		    "GROUP BY owner, target",
		    &rows, err))
		return false;
	while ((step = sqlite3_step(rows)) == SQLITE_ROW)
		count_snapshots(&store->usage, (const char *)sqlite3_column_text(rows, 0),
			sqlite3_column_int64(rows, 1), sqlite3_column_int64(rows, 2),
			sqlite3_column_int64(rows, 3));
	return step == SQLITE_DONE || store_fail(store, err);
}

static int compare_owners(const void *a, const void *b)
{
	const struct store_share *const left = a, *const right = b;

	return (left->owner > right->owner) - (left->owner < right->owner);
}

static int compare_shares(const void *a, const void *b)
{
	const struct store_share *const left = a, *const right = b;

	if (left->owner_bytes != right->owner_bytes)
		return left->owner_bytes > right->owner_bytes ? -1 : 1;
	if (left->owner != right->owner)
		return left->owner > right->owner ? -1 : 1;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return strcmp(left->target, right->target);
}

const struct store_share *store_usage_sort(struct store_usage *usage)
{
	if (usage->count == 0)
		return usage->items;
	qsort(usage->items, usage->count, sizeof *usage->items, compare_owners);
	for (size_t begin = 0, end; begin < usage->count; begin = end) {
		int64_t bytes = 0;
		for (end = begin;
			end < usage->count && usage->items[end].owner == usage->items[begin].owner;
			end++)
			bytes += usage->items[end].bytes;
		for (size_t i = begin; i < end; i++)
			usage->items[i].owner_bytes = bytes;
	}
	qsort(usage->items, usage->count, sizeof *usage->items, compare_shares);
	return usage->items;
}

static int delete_row(struct store *store, sqlite3_int64 id)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(store->index, "DELETE FROM snapshot WHERE id = ?1", -1, &statement,
		    NULL) != SQLITE_OK)
		return SQLITE_ERROR;
	sqlite3_bind_int64(statement, 1, id);
	return sqlite3_step(statement);
}

enum outcome {
	REMOVED,
	NOTHING, /* to remove, or it failed */
	NO_ROOM, /* removing a row needs some in the index's log */
};

/* The log may hold megabytes that are in the index by now. */
static void shorten_log(struct store *store)
{
	(void)sqlite3_wal_checkpoint_v2(store->index, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

/* The file first: a row without one is removed when the store is opened. */
static enum outcome remove_row(struct store *store, sqlite3_stmt *row)
{
	const sqlite3_int64 id = sqlite3_column_int64(row, 0);
	const int64_t bytes = sqlite3_column_int64(row, 2), owner = sqlite3_column_int64(row, 4);
	char name[SNAPSHOT_NAME_BYTES], target[128];

	snprintf(name, sizeof name, "%s", (const char *)sqlite3_column_text(row, 1));
	snprintf(target, sizeof target, "%s", (const char *)sqlite3_column_text(row, 3));
	sqlite3_reset(row);
	if (unlinkat(store->fd, name, 0) != 0 && errno != ENOENT)
		return NOTHING;
	int step = delete_row(store, id);
	if (step == SQLITE_FULL) {
		shorten_log(store);
		step = delete_row(store, id);
	}
	if (step != SQLITE_DONE)
		return step == SQLITE_FULL ? NO_ROOM : NOTHING;
	count_snapshots(&store->usage, target, owner, -bytes, -1);
	return REMOVED;
}

/*
 * Many rows are removed one by one, and a log that is synced with each waits for the disk each
 * time. What a loss of power brings back is a row without a file: the next start removes it. The
 * next commit of a snapshot syncs them all.
 */
static void begin_removals(struct store *store)
{
	(void)sqlite3_exec(store->index, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
}

static void end_removals(struct store *store)
{
	(void)sqlite3_exec(store->index, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
}

#define ROW "SELECT id, file, bytes, target, owner FROM snapshot "

/* The oldest snapshot that may go and is older than the limit; never `newest`. */
static enum outcome remove_older(
	struct store *store, int64_t newest, const char *removable, int64_t limit_ms)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *row = NULL;
	CLEANUP(free_cleanup)
	char *query = xasprintf(ROW "WHERE id <> ?1 AND %s AND " STORE_KEPT_MS
				    " < ?2 ORDER BY id LIMIT 1",
		removable);

	if (sqlite3_prepare_v2(store->index, query, -1, &row, NULL) != SQLITE_OK)
		return NOTHING;
	sqlite3_bind_int64(row, 1, newest);
	sqlite3_bind_int64(row, 2, limit_ms);
	return sqlite3_step(row) == SQLITE_ROW ? remove_row(store, row) : NOTHING;
}

/* The oldest that may go of the target that has most, or of the next; never `newest`. */
static enum outcome remove_largest(struct store *store, int64_t newest, const char *removable)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *row = NULL;
	CLEANUP(free_cleanup)
	char *query = xasprintf(ROW "INDEXED BY snapshot_owner WHERE owner = ?2 AND target = ?3 "
				    "AND id <> ?1 AND %s ORDER BY id LIMIT 1",
		removable);
	const struct store_share *const shares = store_usage_sort(&store->usage);

	if (sqlite3_prepare_v2(store->index, query, -1, &row, NULL) != SQLITE_OK)
		return NOTHING;
	for (size_t i = 0; i < store->usage.count; i++) {
		sqlite3_reset(row);
		sqlite3_bind_int64(row, 1, newest);
		sqlite3_bind_int64(row, 2, shares[i].owner);
		sqlite3_bind_text(row, 3, shares[i].target, -1, SQLITE_TRANSIENT);
		if (sqlite3_step(row) == SQLITE_ROW)
			return remove_row(store, row);
	}
	return NOTHING;
}

/* True when the last removal found no room. */
static bool remove_aged(
	struct store *store, int64_t newest, const char *removable, int64_t now_ms, unsigned *count)
{
	enum outcome outcome = store->limits.keep_ms == 0 ? NOTHING : REMOVED;

	for (unsigned i = 0; i < AGED_MAX && outcome == REMOVED; i++) {
		outcome = remove_older(store, newest, removable, now_ms - store->limits.keep_ms);
		*count += outcome == REMOVED;
	}
	return outcome == NO_ROOM;
}

static bool is_too_much(const struct store *store)
{
	const struct store_limits *const limits = &store->limits;

	return (uint64_t)store->usage.bytes > limits->bytes ||
	       (limits->count != 0 && (uint64_t)store->usage.snapshots > limits->count);
}

/* The same. */
static bool remove_surplus(
	struct store *store, int64_t newest, const char *removable, unsigned *count)
{
	enum outcome outcome = REMOVED;

	while (outcome == REMOVED && is_too_much(store)) {
		outcome = remove_largest(store, newest, removable);
		*count += outcome == REMOVED;
	}
	return outcome == NO_ROOM;
}

/* All of them at once: each transaction costs some pages of the index's log. */
static bool delete_rows(struct store *store, const sqlite3_int64 *ids, size_t count)
{
	bool ok = sqlite3_exec(store->index, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;

	for (size_t i = 0; ok && i < count; i++)
		ok = delete_row(store, ids[i]) == SQLITE_DONE;
	ok = ok && sqlite3_exec(store->index, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
	if (!ok)
		(void)sqlite3_exec(store->index, "ROLLBACK", NULL, NULL, NULL);
	return ok;
}

/*
 * Where the disk has no room even for removing a row, profiles are removed first, in the same
 * order, until it has; then their rows. If the program ends in between, the rows are removed at its
 * next start. `any`: not only what is above the limits.
 */
static bool force(struct store *store, int64_t now_ms, bool any)
{
	CLEANUP(free_cleanup) sqlite3_int64 *ids = NULL;
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	const struct store_share *const shares = store_usage_sort(&store->usage);
	size_t count = 0, capacity = 0;
	unsigned aged = 0;
	bool has_room = false;
	struct error ignored;

	if (sqlite3_prepare_v2(store->index,
		    "SELECT id, file, bytes, " STORE_KEPT_MS " < ?1 FROM snapshot WHERE " NOT_LAST
		    " ORDER BY " STORE_KEPT_MS " < ?1 DESC, owner = ?2 DESC, id",
		    -1, &statement, NULL) != SQLITE_OK)
		return false;
	sqlite3_bind_int64(statement, 1, now_ms - store->limits.keep_ms);
	sqlite3_bind_int64(
		statement, 2, store->usage.count == 0 ? STORE_NO_OWNER : shares[0].owner);
	while (!has_room && sqlite3_step(statement) == SQLITE_ROW) {
		const bool is_aged = store->limits.keep_ms != 0 && aged < AGED_MAX &&
				     sqlite3_column_int(statement, 3) != 0;
		if (!any && !is_aged && !is_too_much(store))
			break;
		aged += is_aged;
		store->usage.bytes -= sqlite3_column_int64(statement, 2);
		store->usage.snapshots--;
		*XAPPEND(ids, count, capacity) = sqlite3_column_int64(statement, 0);
		unlinkat(store->fd, (const char *)sqlite3_column_text(statement, 1), 0);
		has_room = delete_rows(store, ids, count);
	}
	sqlite3_reset(statement);
	/* The users' shares were not updated above: count again. */
	(void)!store_usage_load(store, &ignored);
	shorten_log(store);
	return has_room;
}

static uint64_t free_bytes(struct store *store)
{
	struct statvfs disk;

	return fstatvfs(store->fd, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize
					       : UINT64_MAX;
}

/* Until so much is free, or nothing is left to remove. */
static bool free_disk(struct store *store, int64_t newest, uint64_t wanted_bytes, int64_t now_ms)
{
	while (free_bytes(store) < wanted_bytes) {
		const enum outcome outcome = remove_largest(store, newest, HAS_LATER);
		if (outcome == NOTHING || (outcome == NO_ROOM && !force(store, now_ms, true)))
			return false;
	}
	return true;
}

bool retention_free_surplus(struct store *store, int64_t now_ms)
{
	unsigned count = 0;
	bool is_stuck;

	begin_removals(store);
	do {
		is_stuck = remove_aged(store, 0, HAS_LATER, now_ms, &count) ||
			   remove_surplus(store, 0, HAS_LATER, &count);
		count += is_stuck;
	} while (is_stuck && force(store, now_ms, false));
	end_removals(store);
	shorten_log(store);
	return count > 0;
}

/* Bytes that can be removed for a new snapshot of that target. */
static uint64_t removable_bytes(struct store *store, const struct snapshot *snapshot)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (snapshot == NULL)
		return (uint64_t)store->usage.bytes;
	if (sqlite3_prepare_v2(store->index,
		    "SELECT sum(bytes) FROM snapshot WHERE " NOT_LAST
		    " OR (owner = ?1 AND target = ?2)",
		    -1, &statement, NULL) != SQLITE_OK)
		return 0;
	sqlite3_bind_int64(statement, 1, snapshot->owner);
	sqlite3_bind_text(statement, 2, snapshot->target, -1, SQLITE_STATIC);
	return sqlite3_step(statement) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(statement, 0)
						     : 0;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

bool retention_check_room(
	struct store *store, const struct snapshot *snapshot, uint64_t bytes, struct error *err)
{
	const uint64_t floor = store->limits.free_bytes;
	char text[BYTE_SIZE_TEXT_BYTES];

	/* Without a minimum, a full disk is noticed when writing. */
	if ((floor == 0 && !store->format->makes_room) ||
		add(free_bytes(store), removable_bytes(store, snapshot)) >= add(floor, bytes))
		return true;
	if (floor == 0) {
		error_set(err, ERROR_STATE, "%s: its disk has no room for a capture", store->path);
		return error_hint(err, "make room");
	}
	byte_size_format(floor, text);
	error_set(err, ERROR_STATE, "%s: less than %s would stay free on its disk", store->path,
		text);
	return error_hint(
		err, "make room, or set a lower limit with %s", store->format->free_option);
}

bool retention_make_room(struct store *store, const struct snapshot *snapshot, uint64_t bytes,
	int64_t now_ms, struct error *err)
{
	const uint64_t needed = bytes + SLACK_BYTES, floor = store->limits.free_bytes;

	if (free_bytes(store) >= add(floor, needed))
		return true;
	shorten_log(store);
	(void)retention_free_surplus(store, now_ms);
	if (free_bytes(store) >= add(floor, needed))
		return true;
	if (!retention_check_room(store, snapshot, needed, err))
		return false;
	if (floor == 0 && !store->format->makes_room)
		return true;
	begin_removals(store);
	const bool is_free = free_disk(store, 0, needed, now_ms);
	end_removals(store);
	return is_free || error_system(err, ENOSPC, "%s", store->path);
}

void retention_apply(struct store *store, int64_t newest, int64_t now_ms)
{
	const uint64_t floor = store->limits.free_bytes;
	unsigned ignored = 0;

	begin_removals(store);
	(void)remove_aged(store, newest, ANY, now_ms, &ignored);
	(void)remove_surplus(store, newest, HAS_LATER, &ignored);
	(void)remove_surplus(store, newest, ANY, &ignored);
	/* Not when another program fills the disk and removing snapshots would not help. */
	if (free_bytes(store) < floor &&
		add(free_bytes(store),
			(uint64_t)store_number(
				store, "SELECT sum(bytes) FROM snapshot WHERE " NOT_LAST)) >= floor)
		(void)free_disk(store, newest, floor, now_ms);
	end_removals(store);
}
