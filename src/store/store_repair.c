/* SPDX-License-Identifier: Apache-2.0 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/xalloc.h"
#include "store/capture_list.h"
#include "store/store_index.h"

enum { ID_DIGITS_MAX = 17, RANDOM_BYTES = 17 };

/*
 * Whether it is a file of the store, "NUMBER-....SUFFIX", followed by a random part while it is
 * written.
 */
static bool is_ours(const struct store_format *format, const char *name, bool *is_unfinished)
{
	const size_t digits = strspn(name, "0123456789"), suffix = strlen(format->suffix);
	size_t size = strlen(name);

	if (digits < format->min_digits || digits > ID_DIGITS_MAX || name[digits] != '-' ||
		size >= SNAPSHOT_NAME_BYTES)
		return false;
	*is_unfinished =
		size > RANDOM_BYTES && name[size - RANDOM_BYTES] == '.' &&
		strspn(name + size - RANDOM_BYTES + 1, "0123456789abcdef") == RANDOM_BYTES - 1;
	if (*is_unfinished)
		size -= RANDOM_BYTES;
	return size > digits + suffix && memcmp(name + size - suffix, format->suffix, suffix) == 0;
}

static bool read_history_name(
	const struct store_format *format, const char *name, struct snapshot *snapshot)
{
	const int suffix = (int)strlen(format->suffix);
	int used = 0;

	if (sscanf(name, "%" SCNd64 "-%" SCNd64 "-%n", &snapshot->time_ms, &snapshot->pid, &used) !=
			2 ||
		used == 0)
		return false;
	snprintf(snapshot->target, sizeof snapshot->target, "%.*s",
		(int)strlen(name) - suffix - used, name + used);
	return snapshot->target[0] != '\0';
}

static int64_t number_of(const char *name)
{
	return strtoll(name, NULL, 10);
}

/* In "NUMBER-TIME-TAG-TARGET.PID.heap" the target; jemalloc's own files have their prefix there. */
static void read_capture_name(
	const struct store_format *format, const char *name, struct snapshot *snapshot)
{
	int begin = 0, end = (int)strlen(name) - (int)strlen(format->suffix);

	(void)sscanf(name, "%*[0-9]-%*[^-]-%*[^-]-%n", &begin);
	const char *const pid = memrchr(name, '.', (size_t)end);
	if (pid != NULL && pid - name > begin && strspn(pid + 1, "0123456789") > 0) {
		snapshot->pid = strtoll(pid + 1, NULL, 10);
		end = (int)(pid - name);
	}
	if (begin > 0 && end > begin)
		snprintf(snapshot->target, sizeof snapshot->target, "%.*s", end - begin,
			name + begin);
}

/* `line` of captures.jsonl; NULL when it has none. Its text becomes that of the row. */
static char *describe(const json_t *line, const struct stat *status, struct snapshot *snapshot)
{
	const char *const reason = json_string_value(json_object_get(line, "reason"));
	const json_t *const time_ms = json_object_get(line, "time_ms");
	json_t *const details = line != NULL ? json_deep_copy(line) : json_object();

	snapshot->time_ms = json_is_integer(time_ms) ? json_integer_value(time_ms)
						     : (int64_t)status->st_mtim.tv_sec * 1000 +
							       status->st_mtim.tv_nsec / 1000000;
	snprintf(snapshot->reason, sizeof snapshot->reason, "%s",
		reason != NULL ? reason : "not known");
	if (json_is_integer(json_object_get(line, "resident_bytes")))
		snapshot->bytes[FIGURE_RSS] =
			(uint64_t)json_integer_value(json_object_get(line, "resident_bytes"));
	if (reason == NULL)
		json_object_set_new(details, "reason", json_string(snapshot->reason));
	if (!json_is_integer(time_ms))
		json_object_set_new(details, "time_ms", json_integer(snapshot->time_ms));
	json_object_set_new(details, "file", json_string(snapshot->file));
	json_object_set_new(details, "bytes", json_integer((json_int_t)snapshot->file_bytes));
	char *const text = json_dumps(details, JSON_COMPACT);
	json_decref(details);
	return text;
}

static const json_t *find_line(const json_t *list, const char *name)
{
	const json_t *line;
	size_t i;

	json_array_foreach(list, i, line)
	{
		if (strcmp(json_string_value(json_object_get(line, "file")), name) == 0)
			return line;
	}
	return NULL;
}

static bool is_known(sqlite3_stmt *lookup, const char *name)
{
	sqlite3_reset(lookup);
	sqlite3_bind_text(lookup, 1, name, -1, SQLITE_STATIC);
	/* On an error the file is left alone. */
	return sqlite3_step(lookup) != SQLITE_DONE;
}

static bool has_id(struct store *store, int64_t id)
{
	CLEANUP(free_cleanup)
	char *query = xasprintf("SELECT count(*) FROM snapshot WHERE id = %" PRId64, id);

	return store_number(store, query) != 0;
}

static bool list_file(struct store *store, const char *name, const json_t *list, struct error *err)
{
	struct snapshot snapshot = { .owner = STORE_NO_OWNER };
	CLEANUP(free_cleanup) char *details = NULL;
	struct stat status;

	if (fstatat(store->fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
		return true;
	snprintf(snapshot.file, sizeof snapshot.file, "%s", name);
	snapshot.file_bytes = (uint64_t)status.st_size;
	if (store->format->has_list) {
		read_capture_name(store->format, name, &snapshot);
		details = describe(find_line(list, name), &status, &snapshot);
		snapshot.id = number_of(name);
	} else if (!read_history_name(store->format, name, &snapshot)) {
		return true;
	}
	if (snapshot.id == 0 || has_id(store, snapshot.id))
		snapshot.id = ++store->last_id;
	if (!store_insert(store, &snapshot, details == NULL ? "" : details, 0, err))
		return false;
	return true;
}

/* Removes rows whose file is gone: retention was interrupted, or it was removed by hand. */
static bool remove_lost_rows(struct store *store, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *rows = NULL;
	CLEANUP(statement_cleanup) sqlite3_stmt *removal = NULL;
	int step;

	if (!store_prepare(store, "SELECT id, file FROM snapshot", &rows, err) ||
		!store_prepare(store, "DELETE FROM snapshot WHERE id = ?1", &removal, err))
		return false;
	while ((step = sqlite3_step(rows)) == SQLITE_ROW) {
		const char *const name = (const char *)sqlite3_column_text(rows, 1);
		if (strchr(name, '/') == NULL &&
			(faccessat(store->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
				errno != ENOENT))
			continue;
		sqlite3_reset(removal);
		sqlite3_bind_int64(removal, 1, sqlite3_column_int64(rows, 0));
		/* A row that stays reports its missing file when it is read. */
		(void)sqlite3_step(removal);
	}
	return step == SQLITE_DONE || store_fail(store, err);
}

/* In one transaction, too: there may be tens of thousands, and the gateway serves after it. */
static bool remove_rows(struct store *store, struct error *err)
{
	if (!store_execute(store, "BEGIN", err))
		return false;
	const bool ok = remove_lost_rows(store, err);
	/* On a full disk they stay. */
	if (!ok || sqlite3_exec(store->index, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		(void)sqlite3_exec(store->index, "ROLLBACK", NULL, NULL, NULL);
	return ok;
}

/* Names are in the order of keeping, unless the clock was set. */
static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool list_files(struct store *store, struct dirent **entries, int count, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *lookup = NULL;
	json_t *list = NULL;
	bool ok = store_prepare(store, "SELECT 1 FROM snapshot WHERE file = ?1", &lookup, err);

	for (int i = 0; i < count && ok; i++) {
		const char *const name = entries[i]->d_name;
		struct error unread;
		bool is_unfinished = false;
		if (!is_ours(store->format, name, &is_unfinished) || is_known(lookup, name))
			continue;
		if (is_unfinished) {
			unlinkat(store->fd, name, 0);
			continue;
		}
		if (list == NULL && store->format->has_list &&
			!capture_list_read(store->path, &list, &store->list_damage, &unread))
			list = json_array();
		ok = list_file(store, name, list, err);
	}
	json_decref(list);
	return ok;
}

/* The highest id ever used, so that none is used twice. */
static int64_t find_last_id(struct store *store, struct dirent **entries, int count)
{
	int64_t last =
		store_number(store, "SELECT seq FROM sqlite_sequence WHERE name = 'snapshot'");

	for (int i = 0; i < count && store->format->has_list; i++) {
		const char *const name = entries[i]->d_name;
		bool is_unfinished = false;
		if (is_ours(store->format, name, &is_unfinished) && number_of(name) > last)
			last = number_of(name);
	}
	return last;
}

/* SQLite keeps the highest id that it has used there. */
#define HAD_ANY "SELECT count(*) FROM sqlite_sequence WHERE name = 'snapshot'"

bool store_repair(struct store *store, struct error *err)
{
	struct dirent **entries = NULL;
	const int count = scandir(store->path, &entries, NULL, compare_names);

	if (count < 0)
		return error_system(err, errno, "%s", store->path);
	store->last_id = find_last_id(store, entries, count);
	const bool had_none = store_number(store, HAD_ANY) == 0;
	/* In one transaction: each costs a write to the disk. */
	const bool ok = store_execute(store, "BEGIN", err) &&
			list_files(store, entries, count, err) &&
			store_execute(store, "COMMIT", err);
	if (!ok)
		(void)sqlite3_exec(store->index, "ROLLBACK", NULL, NULL, NULL);
	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
	if (had_none)
		store->relisted_count =
			(size_t)store_number(store, "SELECT count(*) FROM snapshot");
	return ok && remove_rows(store, err);
}
