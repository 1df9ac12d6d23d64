/* SPDX-License-Identifier: Apache-2.0 */
/* Many profiles of the store as one series. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "store/store.h"
#include "store/store_index.h"
#include "profile/tar.h"

struct row {
	int64_t id, time_ms, pid, started_ms;
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

	if (!store_prepare_query(store, query, "id, time_ms, pid, started_ms, bytes, file", "",
		    "ORDER BY time_ms, id", &statement, err))
		return false;
	while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
		rows->items =
			xgrow(rows->items, &rows->capacity, rows->count + 1, sizeof *rows->items);
		struct row *const row = &rows->items[rows->count++];
		*row = (struct row){
			.id = sqlite3_column_int64(statement, 0),
			.time_ms = sqlite3_column_int64(statement, 1),
			.pid = sqlite3_column_int64(statement, 2),
			.started_ms = sqlite3_column_int64(statement, 3),
			.bytes = (uint64_t)sqlite3_column_int64(statement, 4),
			.file = xstrdup((const char *)sqlite3_column_text(statement, 5)),
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
 * Processes one after the other. Where one begins only those that began before it can be its equal:
 * as many comparisons as there are processes, squared, and none for the snapshots in between.
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
			rows.count == 0 ? "no moment" : "only one moment");
		return error_hint(err, "a trend takes two at least, and says more with ten");
	}
	if (!count_processes(&rows, query->target, &processes, err))
		return false;
	*series = (struct store_series){
		.first_id = rows.items[0].id,
		.last_id = rows.items[rows.count - 1].id,
		.count = rows.count,
		.processes = processes,
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

	/* It became too old meanwhile. */
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

bool store_series_gather(struct store *store, const struct store_query *query, size_t max,
	uint64_t max_bytes, int out, struct error *err)
{
	static const char end[2 * TAR_BLOCK];
	CLEANUP(rows_cleanup) struct rows rows = { 0 };
	size_t chosen = 0;

	if (!read_rows(store, query, &rows, err))
		return false;
	if (rows.bytes > max_bytes) {
		const double share = (double)max_bytes / (double)rows.bytes;
		const size_t fitting = (size_t)(share * (double)rows.count);
		max = fitting < max ? fitting : max;
	}
	for (size_t i = 0; i < rows.count; i++) {
		if (store_is_chosen(i, rows.count, max, &chosen) &&
			!append_file(out, store, &rows.items[i], err))
			return false;
	}
	return file_write_fd(out, "a scratch file", end, sizeof end, err);
}
