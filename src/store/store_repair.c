/* SPDX-License-Identifier: Apache-2.0 */
/* What a kill, a full disk or the loss of the index left behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_index.h"

/* Ours: "TIME-PID-NAME.heap.zst", with a random part behind while it is written. */
static bool is_ours(const char *name)
{
	const char *const suffix = strstr(name, STORE_SUFFIX);
	const size_t digits = strspn(name, "0123456789");

	if (digits < 13 || name[digits] != '-' || suffix == NULL)
		return false;
	const char *const rest = suffix + sizeof STORE_SUFFIX - 1;
	return *rest == '\0' ||
	       (*rest == '.' && strspn(rest + 1, "0123456789abcdef") == 16 && rest[17] == '\0');
}

static bool is_indexed(sqlite3_stmt *lookup, const char *name)
{
	sqlite3_reset(lookup);
	sqlite3_bind_text(lookup, 1, name, -1, SQLITE_STATIC);
	/* In doubt it stays. */
	return sqlite3_step(lookup) != SQLITE_DONE;
}

/* A profile without a row was never acknowledged. */
static bool remove_unfinished(struct store *store, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *lookup = NULL;
	DIR *stream = NULL;

	if (!store_prepare(store, "SELECT 1 FROM moment WHERE file = ?1", &lookup, err))
		return false;
	stream = opendir(store->path);
	if (stream == NULL)
		return error_system(err, errno, "%s", store->path);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		if (is_ours(entry->d_name) && !is_indexed(lookup, entry->d_name))
			unlinkat(store->fd, entry->d_name, 0);
	}
	closedir(stream);
	return true;
}

/* A row whose profile went first, because the disk was full (store/retention.h). */
static bool remove_empty(struct store *store, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *rows = NULL;
	CLEANUP(statement_cleanup) sqlite3_stmt *removal = NULL;

	if (!store_prepare(store, "SELECT id, file FROM moment", &rows, err) ||
		!store_prepare(store, "DELETE FROM moment WHERE id = ?1", &removal, err))
		return false;
	while (sqlite3_step(rows) == SQLITE_ROW) {
		const char *const name = (const char *)sqlite3_column_text(rows, 1);
		if (faccessat(store->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
			continue;
		sqlite3_reset(removal);
		sqlite3_bind_int64(removal, 1, sqlite3_column_int64(rows, 0));
		/* One that stays says so when it is asked for. */
		(void)sqlite3_step(removal);
	}
	return true;
}

/* Whether no snapshot was ever acknowledged by this index. */
static bool is_blank(struct store *store, bool *blank, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *lookup = NULL;

	/* SQLite notes the highest number that it has given away there. */
	if (!store_prepare(
		    store, "SELECT 1 FROM sqlite_sequence WHERE name = 'moment'", &lookup, err))
		return false;
	const int step = sqlite3_step(lookup);
	*blank = step == SQLITE_DONE;
	return step == SQLITE_DONE || step == SQLITE_ROW || store_fail(store, err);
}

/* What the name of a profile tells. False when it is none of ours, or not finished. */
static bool read_name(
	const char *name, int64_t *time_ms, int64_t *pid, char target[SNAPSHOT_NAME_BYTES])
{
	const size_t size = strlen(name), suffix = sizeof STORE_SUFFIX - 1;
	int used = 0;

	if (!is_ours(name) || size >= SNAPSHOT_NAME_BYTES ||
		strcmp(name + size - suffix, STORE_SUFFIX) != 0 ||
		sscanf(name, "%" SCNd64 "-%" SCNd64 "-%n", time_ms, pid, &used) != 2 || used == 0)
		return false;
	snprintf(target, SNAPSHOT_NAME_BYTES, "%.*s", (int)(size - suffix) - used, name + used);
	return target[0] != '\0';
}

static bool list_profile(
	struct store *store, sqlite3_stmt *insert, const char *name, struct error *err)
{
	char target[SNAPSHOT_NAME_BYTES];
	int64_t time_ms, pid;
	struct stat status;

	if (!read_name(name, &time_ms, &pid, target) ||
		fstatat(store->fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
		return true;
	sqlite3_reset(insert);
	sqlite3_bind_int64(insert, 1, time_ms);
	sqlite3_bind_text(insert, 2, target, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int64(insert, 3, pid);
	sqlite3_bind_text(insert, 4, name, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int64(insert, 5, status.st_size);
	if (sqlite3_step(insert) != SQLITE_DONE)
		return store_fail(store, err);
	store->listed_again++;
	return true;
}

/* The order of keeping is the order of the names, but where the clock was set. */
static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool list_profiles(struct store *store, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *insert = NULL;
	struct dirent **entries = NULL;
	bool ok = store_prepare(store,
		"INSERT INTO moment (time_ms, target, pid, file, bytes, allocated, active, "
		"metadata, resident, mapped, retained, rss) VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0, "
		"0, 0, 0, 0)",
		&insert, err);
	const int count = ok ? scandir(store->path, &entries, NULL, compare_names) : 0;

	if (count < 0)
		return error_system(err, errno, "%s", store->path);
	for (int i = 0; i < count; i++) {
		ok = ok && list_profile(store, insert, entries[i]->d_name, err);
		free(entries[i]);
	}
	free(entries);
	return ok;
}

/*
 * The index was removed, because it was damaged or by mistake: the profiles are all that there is,
 * and their names tell when they were taken, and of what. All of them or none, for those without a
 * row are removed.
 */
static bool list_again(struct store *store, struct error *err)
{
	bool blank = false;

	if (!is_blank(store, &blank, err))
		return false;
	if (!blank)
		return true;
	if (sqlite3_exec(store->index, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return store_fail(store, err);
	const bool ok = list_profiles(store, err);
	if (ok && sqlite3_exec(store->index, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
		return true;
	if (ok)
		store_fail(store, err);
	(void)sqlite3_exec(store->index, "ROLLBACK", NULL, NULL, NULL);
	return false;
}

bool store_repair(struct store *store, struct error *err)
{
	return list_again(store, err) && remove_unfinished(store, err) && remove_empty(store, err);
}
