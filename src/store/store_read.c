/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots by name and time, and many of them as one series of profiles. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "profile/bundle.h"
#include "store/notes.h"
#include "store/store.h"
#include "store/store_index.h"

#define COLUMNS                                                                   \
	"id, time_ms, target, pid, started_ms, file, bytes, reason, gateway_ms, " \
	"owner, host, service, version, sent_ms, details, attached, labels, " STORE_FIGURE_COLUMNS
enum { COLUMN_FIGURES = 17 };

static void read_text(sqlite3_stmt *row, int column, char *text, size_t size)
{
	snprintf(text, size, "%s", (const char *)sqlite3_column_text(row, column));
}

static void read_snapshot(sqlite3_stmt *row, struct snapshot *snapshot)
{
	*snapshot = (struct snapshot){
		.id = sqlite3_column_int64(row, 0),
		.time_ms = sqlite3_column_int64(row, 1),
		.pid = sqlite3_column_int64(row, 3),
		.started_ms = sqlite3_column_int64(row, 4),
		.file_bytes = (uint64_t)sqlite3_column_int64(row, 6),
		.gateway_ms = sqlite3_column_int64(row, 8),
		.owner = sqlite3_column_int64(row, 9),
		.sent_ms = sqlite3_column_int64(row, 13),
		.is_attached = sqlite3_column_int64(row, 15) != 0,
	};
	read_text(row, 2, snapshot->target, sizeof snapshot->target);
	read_text(row, 5, snapshot->file, sizeof snapshot->file);
	read_text(row, 7, snapshot->reason, sizeof snapshot->reason);
	read_text(row, 10, snapshot->host, sizeof snapshot->host);
	read_text(row, 11, snapshot->service, sizeof snapshot->service);
	read_text(row, 12, snapshot->version, sizeof snapshot->version);
	read_text(row, 16, snapshot->labels, sizeof snapshot->labels);
	for (int i = 0; i < FIGURES; i++)
		snapshot->bytes[i] = (uint64_t)sqlite3_column_int64(row, COLUMN_FIGURES + i);
}

/* The allocator's figures are known together; a capture of heapctl watch has only the kernel's. */
static void put_figures(struct json_writer *json, const struct snapshot *snapshot)
{
	bool is_known = false;

	for (size_t i = 0; i < FIGURE_RSS; i++)
		is_known |= snapshot->bytes[i] != 0;
	for (size_t i = 0; i < FIGURES; i++) {
		json_key(json, memory_figure_names[i]);
		if (i == FIGURE_RSS ? snapshot->bytes[i] != 0 : is_known)
			json_put_unsigned(json, snapshot->bytes[i]);
		else
			json_put_null(json);
	}
}

static void put_snapshot(void *context, const struct snapshot *snapshot)
{
	struct json_writer *const json = context;

	json_object_begin(json);
	json_member_integer(json, "id", snapshot->id);
	json_member_integer(json, "time_ms", snapshot->time_ms);
	json_member_string(json, "target", snapshot->target);
	json_member_integer(json, "pid", snapshot->pid);
	json_member_integer(json, "started_ms", snapshot->started_ms);
	json_member_bool(json, "attached", snapshot->is_attached);
	json_member_integer(json, "gateway_ms", snapshot->gateway_ms);
	json_member_string(json, "reason", snapshot->reason);
	put_figures(json, snapshot);
	json_object_end(json);
}

/*
 * Whether the one at that position is among `max` of `count`, evenly spread with the first and the
 * last; positions ascend. `chosen` counts them and begins at 0.
 */
static bool is_chosen(size_t at, size_t count, size_t max, size_t *chosen)
{
	if (count > max && (max < 2 || at * (max - 1) < *chosen * (count - 1)))
		return false;
	(*chosen)++;
	return true;
}

static bool count_rows(
	struct store *store, const struct store_query *query, size_t *count, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (!store_prepare_query(store, query, "count(*)", "", "", &statement, err))
		return false;
	if (sqlite3_step(statement) != SQLITE_ROW)
		return store_fail(store, err);
	*count = (size_t)sqlite3_column_int64(statement, 0);
	return true;
}

bool store_each(struct store *store, const struct store_query *query, size_t max,
	void (*take)(void *context, const struct snapshot *snapshot), void *context, size_t *total,
	struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	size_t count = 0, at = 0, chosen = 0;
	int step;

	if (!count_rows(store, query, &count, err) ||
		!store_prepare_query(
			store, query, COLUMNS, "", "ORDER BY time_ms, id", &statement, err))
		return false;
	for (; (step = sqlite3_step(statement)) == SQLITE_ROW; at++) {
		struct snapshot snapshot;
		if (!is_chosen(at, count, max, &chosen))
			continue;
		read_snapshot(statement, &snapshot);
		snapshot.details = (const char *)sqlite3_column_text(statement, 14);
		take(context, &snapshot);
	}
	*total = count;
	return step == SQLITE_DONE || store_fail(store, err);
}

bool store_list(struct store *store, const struct store_query *query, size_t max,
	struct json_writer *json, size_t *total, struct error *err)
{
	json_array_begin(json);
	const bool ok = store_each(store, query, max, put_snapshot, json, total, err);
	json_array_end(json);
	return ok;
}

/* `moments` is the former name, until 0.3. */
static void put_count(struct json_writer *json, int64_t snapshots)
{
	json_member_integer(json, "snapshots", snapshots);
	json_member_integer(json, "moments", snapshots);
}

bool store_list_processes(struct store *store, const struct store_query *query,
	struct json_writer *json, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	int step;

	if (!store_prepare_query(store, query,
		    "pid, started_ms, min(time_ms), max(time_ms), count(*), max(attached)", "",
		    "GROUP BY pid, started_ms ORDER BY 3, 1", &statement, err))
		return false;
	json_array_begin(json);
	while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
		json_object_begin(json);
		json_member_integer(json, "pid", sqlite3_column_int64(statement, 0));
		json_member_integer(json, "started_ms", sqlite3_column_int64(statement, 1));
		json_member_integer(json, "first_ms", sqlite3_column_int64(statement, 2));
		json_member_integer(json, "last_ms", sqlite3_column_int64(statement, 3));
		put_count(json, sqlite3_column_int64(statement, 4));
		json_member_bool(json, "attached", sqlite3_column_int64(statement, 5) != 0);
		json_object_end(json);
	}
	json_array_end(json);
	return step == SQLITE_DONE || store_fail(store, err);
}

bool store_each_owner(struct store *store,
	void (*take)(void *context, const char *target, int64_t owner), void *context,
	struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	int step;

	/* Of a row with max() SQLite takes the other columns from the row that has it. */
	if (!store_prepare(store,
		    "SELECT target, owner, max(id) FROM snapshot WHERE owner >= 0 GROUP BY target",
		    &statement, err))
		return false;
	while ((step = sqlite3_step(statement)) == SQLITE_ROW)
		take(context, (const char *)sqlite3_column_text(statement, 0),
			sqlite3_column_int64(statement, 1));
	return step == SQLITE_DONE || store_fail(store, err);
}

bool store_list_targets(struct store *store, struct json_writer *json, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	int step;

	if (!store_prepare(store,
		    "SELECT target, min(time_ms), max(time_ms), count(*), sum(bytes), "
		    "count(DISTINCT pid || '-' || started_ms) "
		    "FROM snapshot GROUP BY target ORDER BY target",
		    &statement, err))
		return false;
	json_array_begin(json);
	while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
		json_object_begin(json);
		json_member_string(json, "name", (const char *)sqlite3_column_text(statement, 0));
		json_member_integer(json, "first_ms", sqlite3_column_int64(statement, 1));
		json_member_integer(json, "last_ms", sqlite3_column_int64(statement, 2));
		put_count(json, sqlite3_column_int64(statement, 3));
		json_member_integer(json, "bytes", sqlite3_column_int64(statement, 4));
		json_member_integer(json, "processes", sqlite3_column_int64(statement, 5));
		json_object_end(json);
	}
	json_array_end(json);
	return step == SQLITE_DONE || store_fail(store, err);
}

/* The row that the statement finds, and its file. */
static bool take(struct store *store, sqlite3_stmt *statement, struct snapshot *snapshot,
	int *profile_fd, struct error *err)
{
	struct snapshot found;

	read_snapshot(statement, &found);
	const int fd = openat(store->fd, found.file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_system(err, errno, "%s/%s", store->path, found.file);
	*profile_fd = fd;
	*snapshot = found;
	return true;
}

bool store_get(struct store *store, const struct store_query *query, int64_t time_ms,
	struct snapshot *snapshot, int *profile_fd, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *before = NULL;
	CLEANUP(statement_cleanup) sqlite3_stmt *after = NULL;

	if (!store_prepare_query(store, query, COLUMNS, STORE_BEFORE, STORE_LAST, &before, err) ||
		!store_prepare_query(store, query, COLUMNS, "", STORE_FIRST, &after, err))
		return false;
	sqlite3_bind_int64(before, 6, time_ms);
	sqlite3_stmt *found = before;
	int step = sqlite3_step(before);
	if (step == SQLITE_DONE) {
		found = after;
		step = sqlite3_step(after);
	}
	if (step == SQLITE_DONE) {
		error_set(err, ERROR_NOT_FOUND, "there is no history of %s", query->target);
		return error_hint(err, "nothing was stored of it yet, or it has expired");
	}
	return step == SQLITE_ROW ? take(store, found, snapshot, profile_fd, err)
				  : store_fail(store, err);
}

bool store_get_id(struct store *store, const char *target, int64_t id, struct snapshot *snapshot,
	int *profile_fd, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (!store_prepare_query(store,
		    &(struct store_query){ .target = target, .to_ms = INT64_MAX }, COLUMNS,
		    "AND id = ?6", "", &statement, err))
		return false;
	sqlite3_bind_int64(statement, 6, id);
	const int step = sqlite3_step(statement);
	if (step == SQLITE_DONE) {
		error_set(err, ERROR_NOT_FOUND, "there is no snapshot %" PRId64 " of %s", id,
			target != NULL ? target : store->path);
		return error_hint(err, "it may have been too old to be kept");
	}
	return step == SQLITE_ROW ? take(store, statement, snapshot, profile_fd, err)
				  : store_fail(store, err);
}

bool store_next_unsent(struct store *store, int64_t after_id, struct snapshot *snapshot,
	int *profile_fd, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	int step;

	if (!store_prepare(store,
		    "SELECT " COLUMNS " FROM snapshot WHERE sent_ms = 0 AND id > ?1 "
		    "ORDER BY id",
		    &statement, err))
		return false;
	sqlite3_bind_int64(statement, 1, after_id);
	while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
		if (take(store, statement, snapshot, profile_fd, err))
			return true;
		/* The process that keeps snapshots removes a file before its row. */
		if (err->errnum != ENOENT)
			return false;
	}
	return step == SQLITE_DONE
		       ? error_set(err, ERROR_NOT_FOUND, "%s: all snapshots were sent", store->path)
		       : store_fail(store, err);
}

bool store_count_unsent(struct store *store, uint64_t *count, int64_t *oldest_ms, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (!store_prepare(store,
		    "SELECT count(*), coalesce(min(time_ms), 0) FROM snapshot WHERE sent_ms = 0",
		    &statement, err))
		return false;
	if (sqlite3_step(statement) != SQLITE_ROW)
		return store_fail(store, err);
	*count = (uint64_t)sqlite3_column_int64(statement, 0);
	*oldest_ms = sqlite3_column_int64(statement, 1);
	return true;
}

bool store_mark_sent(struct store *store, int64_t id, int64_t sent_ms, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (!store_prepare(
		    store, "UPDATE snapshot SET sent_ms = ?2 WHERE id = ?1", &statement, err))
		return false;
	sqlite3_bind_int64(statement, 1, id);
	sqlite3_bind_int64(statement, 2, sent_ms);
	return sqlite3_step(statement) == SQLITE_DONE || store_fail(store, err);
}

struct row {
	int64_t id, time_ms, pid, started_ms, owner;
	uint64_t bytes;
	char *file;
};

struct rows {
	struct row *items;
	size_t count, capacity;
	uint64_t bytes;
};

static void rows_cleanup(struct rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		free(rows->items[i].file);
	free(rows->items);
}

static bool read_rows(
	struct store *store, const struct store_query *query, struct rows *rows, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	int step;

	if (!store_prepare_query(store, query, "id, time_ms, pid, started_ms, bytes, file, owner",
		    "", "ORDER BY time_ms, id", &statement, err))
		return false;
	while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
		struct row *const row = XAPPEND(rows->items, rows->count, rows->capacity);
		*row = (struct row){
			.id = sqlite3_column_int64(statement, 0),
			.time_ms = sqlite3_column_int64(statement, 1),
			.pid = sqlite3_column_int64(statement, 2),
			.started_ms = sqlite3_column_int64(statement, 3),
			.bytes = (uint64_t)sqlite3_column_int64(statement, 4),
			.file = xstrdup((const char *)sqlite3_column_text(statement, 5)),
			.owner = sqlite3_column_int64(statement, 6),
		};
		rows->bytes += row->bytes;
	}
	return step == SQLITE_DONE || store_fail(store, err);
}

static bool is_same_process(const struct row *a, const struct row *b)
{
	return a->pid == b->pid && a->started_ms == b->started_ms;
}

/*
 * Counts processes that ran one after the other. Only the first snapshot of a process is compared
 * with the earlier processes: quadratic in processes, not in snapshots.
 */
static bool count_processes(
	const struct rows *rows, const char *target, int64_t *count, struct error *err)
{
	CLEANUP(free_cleanup) size_t *begins = xcalloc(rows->count, sizeof *begins);
	size_t known = 0;

	for (size_t i = 0; i < rows->count; i++) {
		if (i != 0 && is_same_process(&rows->items[i], &rows->items[i - 1]))
			continue;
		for (size_t j = 0; j < known; j++) {
			if (!is_same_process(&rows->items[i], &rows->items[begins[j]]))
				continue;
			error_set(err, ERROR_STATE,
				"processes of the name %s ran at the same time: %" PRId64
				" and %" PRId64,
				target, rows->items[i].pid, rows->items[i - 1].pid);
			return error_hint(err, "choose one of them with pid and started_ms");
		}
		begins[known++] = i;
	}
	*count = (int64_t)known;
	return true;
}

bool store_series_look(struct store *store, const struct store_query *query,
	struct store_series *series, struct error *err)
{
	CLEANUP(rows_cleanup) struct rows rows = { 0 };
	int64_t processes = 0;

	if (!read_rows(store, query, &rows, err))
		return false;
	if (rows.count < 2) {
		error_set(err, ERROR_NOT_FOUND, "%s has %s in this time", query->target,
			rows.count == 0 ? "no snapshot" : "only one snapshot");
		return error_hint(err, "a trend needs at least two, better ten");
	}
	uint64_t notes = 0;
	if (!count_processes(&rows, query->target, &processes, err) ||
		!store_hash_notes(store, query, &notes, err))
		return false;
	*series = (struct store_series){
		.first_id = rows.items[0].id,
		.last_id = rows.items[rows.count - 1].id,
		.count = rows.count,
		.bytes = rows.bytes,
		.owner = rows.items[rows.count - 1].owner,
		.processes = processes,
		.notes = notes,
	};
	return true;
}

static bool append_file(
	int out, const struct store *store, const struct row *row, struct error *err)
{
	static const char zeros[TAR_BLOCK];
	CLEANUP(fd_cleanup)
	const int fd = openat(store->fd, row->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(file_unmap) struct file_map map = { 0 };
	char header[TAR_BLOCK], name[TAR_NAME_BYTES];

	/* It has been removed meanwhile. */
	if (fd < 0 && errno == ENOENT)
		return true;
	if (fd < 0)
		return error_system(err, errno, "%s/%s", store->path, row->file);
	if (!file_map_fd(fd, row->file, &map, err))
		return false;
	snprintf(name, sizeof name, "%013" PRId64 "-%" PRId64 ".heap.zst", row->time_ms, row->pid);
	tar_header(header, name, map.size, row->time_ms);
	return file_write_fd(out, "a scratch file", header, sizeof header, err) &&
	       file_write_fd(out, "a scratch file", map.data, map.size, err) &&
	       file_write_fd(out, "a scratch file", zeros, tar_padding(map.size), err);
}

static uint64_t chosen_bytes(const struct rows *rows, size_t max)
{
	uint64_t bytes = 0;
	size_t chosen = 0;

	for (size_t i = 0; i < rows->count; i++) {
		if (is_chosen(i, rows->count, max, &chosen))
			bytes += rows->items[i].bytes;
	}
	return bytes;
}

/* Files differ in size: those chosen may be the large ones. */
static size_t fitting_count(const struct rows *rows, size_t max, uint64_t max_bytes)
{
	size_t count = rows->count < max ? rows->count : max;
	uint64_t bytes;

	while (count > 0 && (bytes = chosen_bytes(rows, count)) > max_bytes) {
		const double share = (double)max_bytes / (double)bytes;
		const size_t fitting = (size_t)(share * (double)count);
		count = fitting < count ? fitting : count - 1;
	}
	return count;
}

bool store_series_gather(struct store *store, const struct store_query *query, size_t max,
	uint64_t max_bytes, int out, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer end = BUFFER_OR_EXIT;
	CLEANUP(rows_cleanup) struct rows rows = { 0 };
	size_t chosen = 0;

	if (!read_rows(store, query, &rows, err))
		return false;
	max = fitting_count(&rows, max, max_bytes);
	for (size_t i = 0; i < rows.count; i++) {
		if (is_chosen(i, rows.count, max, &chosen) &&
			!append_file(out, store, &rows.items[i], err))
			return false;
	}
	if (!store_append_notes(store, query, &end, err))
		return false;
	tar_finish(&end);
	return file_write_fd(out, "a scratch file", end.data, end.size, err);
}
