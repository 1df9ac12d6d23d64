/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "store/store_index.h"
#include "store/retention.h"

enum {
	COMPRESSION_LEVEL = 6,
	BUSY_MS = 10 * 1000,
};

/* A write-ahead log that is synced with every commit. */
static const char PREPARE[] =
	"PRAGMA journal_mode = WAL;"
	"PRAGMA synchronous = FULL;"
	"CREATE TABLE IF NOT EXISTS moment (id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" time_ms INTEGER NOT NULL, target TEXT NOT NULL, pid INTEGER NOT NULL,"
	" file TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL,"
	" allocated INTEGER NOT NULL, active INTEGER NOT NULL, metadata INTEGER NOT NULL,"
	" resident INTEGER NOT NULL, mapped INTEGER NOT NULL, retained INTEGER NOT NULL,"
	" rss INTEGER NOT NULL, reason TEXT NOT NULL DEFAULT '',"
	" started_ms INTEGER NOT NULL DEFAULT 0, gateway_ms INTEGER NOT NULL DEFAULT 0);"
	"CREATE INDEX IF NOT EXISTS moment_time ON moment (time_ms);"
	"CREATE INDEX IF NOT EXISTS moment_target ON moment (target, time_ms);"
	"CREATE INDEX IF NOT EXISTS moment_pid ON moment (pid, time_ms);";

/* Columns that an index of an earlier version lacks. */
static const struct {
	const char *name, *type;
} later_columns[] = {
	{ "reason", "TEXT NOT NULL DEFAULT ''" },
	{ "started_ms", "INTEGER NOT NULL DEFAULT 0" },
	{ "gateway_ms", "INTEGER NOT NULL DEFAULT 0" },
	{ "owner", "INTEGER NOT NULL DEFAULT -1" },
	{ "kept_ms", "INTEGER NOT NULL DEFAULT 0" },
	{ "boot", "INTEGER NOT NULL DEFAULT 0" },
	{ "boot_ms", "INTEGER NOT NULL DEFAULT 0" },
};

static const char PREPARE_LATER[] =
	"CREATE INDEX IF NOT EXISTS moment_owner ON moment (owner, target);";

bool store_fail(struct store *store, struct error *err)
{
	error_set(err, ERROR_SYSTEM, "%s/index.sqlite: %s", store->path,
		store->index == NULL ? "no memory" : sqlite3_errmsg(store->index));
	err->errnum =
		store->index != NULL && sqlite3_errcode(store->index) == SQLITE_FULL ? ENOSPC : 0;
	return false;
}

bool store_prepare(
	struct store *store, const char *text, sqlite3_stmt **statement, struct error *err)
{
	return sqlite3_prepare_v2(store->index, text, -1, statement, NULL) == SQLITE_OK ||
	       store_fail(store, err);
}

static bool add_column(struct store *store, const char *name, const char *type)
{
	CLEANUP(free_cleanup) char *lookup = xasprintf("SELECT %s FROM moment LIMIT 0", name);
	CLEANUP(free_cleanup)
	char *change = xasprintf("ALTER TABLE moment ADD COLUMN %s %s", name, type);

	return sqlite3_exec(store->index, lookup, NULL, NULL, NULL) == SQLITE_OK ||
	       sqlite3_exec(store->index, change, NULL, NULL, NULL) == SQLITE_OK;
}

static bool add_columns(struct store *store)
{
	for (size_t i = 0; i < sizeof later_columns / sizeof later_columns[0]; i++) {
		if (!add_column(store, later_columns[i].name, later_columns[i].type))
			return false;
	}
	return true;
}

static bool deny(const char *path, const char *name, const char *why, struct error *err)
{
	error_set(err, ERROR_DENIED, "%s%s%s %s: another user could change the history", path,
		name[0] == '\0' ? "" : "/", name, why);
	return error_hint(err,
		"give a folder that belongs to the gateway's user, with mode 700 and nothing "
		"else in it");
}

/* What is in the folder is believed, and what a link in it points to would be written. */
static bool check_trust(const struct store *store, struct error *err)
{
	static const char *const names[] = { "index.sqlite", "index.sqlite-wal", "index.sqlite-shm",
		"index.sqlite-journal" };
	struct stat status;

	if (fstat(store->fd, &status) != 0)
		return error_system(err, errno, "%s", store->path);
	if (status.st_uid != geteuid() && status.st_uid != 0)
		return deny(store->path, "", "belongs to another user", err);
	if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return deny(store->path, "", "may be written to by others", err);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (fstatat(store->fd, names[i], &status, AT_SYMLINK_NOFOLLOW) != 0) {
			if (errno == ENOENT)
				continue;
			return error_system(err, errno, "%s/%s", store->path, names[i]);
		}
		if (!S_ISREG(status.st_mode) || status.st_nlink > 1)
			return deny(store->path, names[i], "is a link, or no file", err);
		if (status.st_uid != geteuid() && status.st_uid != 0)
			return deny(store->path, names[i], "belongs to another user", err);
		if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
			return deny(store->path, names[i], "may be written to by others", err);
	}
	return true;
}

static bool open_locked(struct store *store, struct error *err)
{
	if (mkdir(store->path, 0700) != 0 && errno != EEXIST)
		return error_system(err, errno, "making the folder %s", store->path);
	store->fd = open(store->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->fd < 0)
		return error_system(err, errno, "%s", store->path);
	/* SQLite would only say that it cannot open its file. */
	if (faccessat(store->fd, ".", W_OK, AT_EACCESS) != 0)
		return error_system(err, errno, "%s", store->path);
	if (!check_trust(store, err))
		return false;
	if (flock(store->fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	error_set(err, ERROR_STATE, "%s is the history of another heapctl serve", store->path);
	return error_hint(err, "give each its own folder");
}

static bool try_index(struct store *store, const char *path, const char *mode)
{
	sqlite3_close(store->index);
	store->index = NULL;
	return sqlite3_open_v2(path, &store->index,
		       SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
		       NULL) == SQLITE_OK &&
	       sqlite3_busy_timeout(store->index, BUSY_MS) == SQLITE_OK &&
	       sqlite3_exec(store->index, mode, NULL, NULL, NULL) == SQLITE_OK &&
	       sqlite3_exec(store->index, PREPARE, NULL, NULL, NULL) == SQLITE_OK &&
	       add_columns(store) &&
	       sqlite3_exec(store->index, PREPARE_LATER, NULL, NULL, NULL) == SQLITE_OK;
}

/*
 * SQLite would make it for all to read, and gives its log the rights that the index has. Closed
 * before SQLite opens it: closing any descriptor of a file ends the process' locks on it.
 */
static void make_index(const struct store *store)
{
	const int fd =
		openat(store->fd, "index.sqlite", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
}

/*
 * On a full disk there is no room for the file by which SQLite lets others read meanwhile; without
 * them it needs none, and what is above the limits can be removed.
 */
static bool open_index(struct store *store, struct error *err)
{
	char path[4096];

	make_index(store);
	snprintf(path, sizeof path, "%s/index.sqlite", store->path);
	if (try_index(store, path, "") ||
		(store->index != NULL && (sqlite3_errcode(store->index) & 0xff) == SQLITE_IOERR &&
			try_index(store, path, "PRAGMA locking_mode = EXCLUSIVE")))
		return true;
	store_fail(store, err);
	const int code = store->index == NULL ? 0 : sqlite3_errcode(store->index) & 0xff;
	return code != SQLITE_NOTADB && code != SQLITE_CORRUPT
		       ? false
		       : error_hint(err,
				 "remove index.sqlite: what is kept is listed again, without "
				 "its memory figures");
}

static bool start_clock(struct store *store, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *last = NULL;
	struct store_time_source source =
		store->limits.time != NULL ? *store->limits.time : store_time_source_get();
	struct store_clock_mark mark;

	if (!store_prepare(store,
		    "SELECT kept_ms, boot, boot_ms, time_ms FROM moment ORDER BY id DESC LIMIT 1",
		    &last, err))
		return false;
	const int step = sqlite3_step(last);
	if (step != SQLITE_ROW && step != SQLITE_DONE)
		return store_fail(store, err);
	mark = (struct store_clock_mark){
		.kept_ms = step == SQLITE_ROW ? sqlite3_column_int64(last, 0) : 0,
		.boot = step == SQLITE_ROW ? sqlite3_column_int64(last, 1) : 0,
		.since_boot_ms = step == SQLITE_ROW ? sqlite3_column_int64(last, 2) : 0,
		.since_1970_ms = step == SQLITE_ROW ? sqlite3_column_int64(last, 3) : 0,
	};
	store_clock_init(
		&store->clock, &source, step == SQLITE_ROW ? &mark : NULL, store->limits.keep_ms);
	return true;
}

static bool count_bytes(struct store *store, struct error *err)
{
	return store_usage_load(&store->usage, store->index) || store_fail(store, err);
}

bool store_open(
	const char *path, const struct store_limits *limits, struct store **ret, struct error *err)
{
	struct store *const store = xcalloc(1, sizeof *store);

	store->fd = -1;
	store->limits = *limits;
	store->opened_ms = clock_realtime_ms();
	pthread_mutex_init(&store->mutex, NULL);
	const bool fits =
		(size_t)snprintf(store->path, sizeof store->path, "%s", path) < sizeof store->path;
	if ((fits || error_system(err, ENAMETOOLONG, "%.100s...", path)) &&
		open_locked(store, err) && open_index(store, err) && store_repair(store, err) &&
		start_clock(store, err) && count_bytes(store, err)) {
		*ret = store;
		return true;
	}
	store_close(store);
	return false;
}

void store_close(struct store *store)
{
	if (store == NULL)
		return;
	sqlite3_close(store->index);
	store_usage_deinit(&store->usage);
	if (store->fd >= 0)
		close(store->fd);
	pthread_mutex_destroy(&store->mutex);
	free(store);
}

size_t store_listed_again(const struct store *store)
{
	return store->listed_again;
}

const char *store_folder(const struct store *store)
{
	return store->path;
}

static void make_name(const struct snapshot *snapshot, char name[SNAPSHOT_NAME_BYTES])
{
	snprintf(name, SNAPSHOT_NAME_BYTES, "%013" PRId64 "-%" PRId64 "-%.120s%s",
		snapshot->time_ms, snapshot->pid, snapshot->target, STORE_SUFFIX);
	for (char *at = name; *at != '\0'; at++) {
		if (!isalnum((unsigned char)*at) && strchr("._-+@", *at) == NULL)
			*at = '_';
	}
}

/* With a checksum: a disk that lies is found out when it is read. */
static bool compress(const void *data, size_t size, struct buffer *out, struct error *err)
{
	ZSTD_CCtx *const context = ZSTD_createCCtx();

	if (context == NULL)
		return error_set(err, ERROR_MEMORY, "no memory to compress a profile");
	buffer_reserve(out, ZSTD_compressBound(size));
	ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, COMPRESSION_LEVEL);
	ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
	const size_t got = ZSTD_compress2(context, out->data, out->capacity, data, size);
	ZSTD_freeCCtx(context);
	if (ZSTD_isError(got))
		return error_set(
			err, ERROR_SYSTEM, "compressing a profile: %s", ZSTD_getErrorName(got));
	out->size = got;
	return true;
}

/* Under its name and on the disk when it returns. */
static bool write_profile(const struct store *store, const char *name, const void *data,
	size_t size, struct error *err)
{
	struct file_draft draft = { .fd = -1 };
	char path[4096];

	snprintf(path, sizeof path, "%s/%s", store->path, name);
	if (!file_draft_open(path, 0600, &draft, err))
		return false;
	if (!file_write_fd(draft.fd, path, data, size, err)) {
		file_draft_discard(&draft);
		return false;
	}
	if (fsync(draft.fd) != 0) {
		error_system(err, errno, "%s", path);
		file_draft_discard(&draft);
		return false;
	}
	if (!file_draft_commit(&draft, err))
		return false;
	if (fsync(store->fd) == 0)
		return true;
	error_system(err, errno, "%s", store->path);
	unlinkat(store->fd, name, 0);
	return false;
}

static bool insert(struct store *store, struct snapshot *snapshot, const char *name, size_t size,
	struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (!store_prepare(store,
		    "INSERT INTO moment (time_ms, target, pid, file, bytes, reason, "
		    "started_ms, gateway_ms, owner, kept_ms, boot, "
		    "boot_ms, " STORE_FIGURE_COLUMNS
		    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, "
		    "?16, ?17, ?18, ?19)",
		    &statement, err))
		return false;
	sqlite3_bind_int64(statement, 1, snapshot->time_ms);
	sqlite3_bind_text(statement, 2, snapshot->target, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 3, snapshot->pid);
	sqlite3_bind_text(statement, 4, name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 5, (sqlite3_int64)size);
	sqlite3_bind_text(statement, 6, snapshot->reason, -1, SQLITE_STATIC);
	sqlite3_bind_int64(statement, 7, snapshot->started_ms);
	sqlite3_bind_int64(statement, 8, store->opened_ms);
	sqlite3_bind_int64(statement, 9, snapshot->owner);
	sqlite3_bind_int64(statement, 10, store_clock_ms(&store->clock));
	sqlite3_bind_int64(statement, 11, store->clock.source.boot);
	sqlite3_bind_int64(statement, 12, store->clock.source.since_boot_ms());
	for (int i = 0; i < FIGURES; i++)
		sqlite3_bind_int64(statement, 13 + i, (sqlite3_int64)snapshot->bytes[i]);
	const int step = sqlite3_step(statement);
	if (step != SQLITE_DONE) {
		/* When the disk failed the row may be there once the index is opened again. */
		if ((step & 0xff) != SQLITE_IOERR)
			unlinkat(store->fd, name, 0);
		return store_fail(store, err);
	}
	snapshot->id = sqlite3_last_insert_rowid(store->index);
	snapshot->file_bytes = size;
	store_usage_add(&store->usage, snapshot->target, snapshot->owner, (int64_t)size);
	strcpy(snapshot->file, name);
	return true;
}

/* Whether the disk, or what this user may have of it, is full. */
static bool is_full(const struct error *err)
{
	return err->errnum == ENOSPC || err->errnum == EDQUOT;
}

static bool write_snapshot(struct store *store, struct snapshot *snapshot, const char *name,
	const struct buffer *profile, struct error *err)
{
	return write_profile(store, name, profile->data, profile->size, err) &&
	       insert(store, snapshot, name, profile->size, err);
}

bool store_add(struct store *store, struct snapshot *snapshot, const void *profile, size_t size,
	struct error *err)
{
	CLEANUP(buffer_cleanup) struct buffer compressed = { 0 };
	char name[SNAPSHOT_NAME_BYTES];

	buffer_init(&compressed, &memory_or_exit);
	if (!compress(profile, size, &compressed, err))
		return false;
	STORE_HOLD(store);
	const struct retention retention = { store->index, store->fd, store->path, &store->limits,
		&store->usage };
	const int64_t now_ms = store_clock_ms(&store->clock);
	make_name(snapshot, name);
	if (faccessat(store->fd, name, F_OK, 0) == 0)
		return error_set(err, ERROR_STATE, "%s has this moment already", store->path);
	if (!retention_make_room(&retention, compressed.size, now_ms, err))
		return false;
	if (!write_snapshot(store, snapshot, name, &compressed, err) &&
		!(is_full(err) && retention_free_surplus(&retention, now_ms) &&
			write_snapshot(store, snapshot, name, &compressed, err)))
		return false;
	retention_apply(&retention, snapshot->id, now_ms);
	return true;
}
