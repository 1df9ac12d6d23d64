/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"

enum {
	VERSION = 3, /* PRAGMA user_version */
	BUSY_MS = 10 * 1000,
};

const char *const memory_figure_names[FIGURES] = {
	[FIGURE_ALLOCATED] = "allocated",
	[FIGURE_ACTIVE] = "active",
	[FIGURE_METADATA] = "metadata",
	[FIGURE_RESIDENT] = "resident",
	[FIGURE_MAPPED] = "mapped",
	[FIGURE_RETAINED] = "retained",
	[FIGURE_RSS] = "rss",
};

/* A write-ahead log that is synced with every commit, and stays short. */
static const char SETTINGS[] =
	"PRAGMA trusted_schema = OFF; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
	"PRAGMA wal_autocheckpoint = 256;";

#define NUMBER " INTEGER NOT NULL DEFAULT 0"
#define TEXT " TEXT NOT NULL DEFAULT ''"

/* Columns that every version has; the later ones are added after them. */
static const char CREATE_TABLE[] =
	"CREATE TABLE snapshot (id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" time_ms INTEGER NOT NULL, target TEXT NOT NULL, pid INTEGER NOT NULL,"
	" file TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL, allocated" NUMBER ", active" NUMBER
	", metadata" NUMBER ", resident" NUMBER ", mapped" NUMBER ", retained" NUMBER ", rss" NUMBER
	")";

static const struct {
	const char *name, *type;
} later_columns[] = {
	{ "reason", TEXT }, { "started_ms", NUMBER }, { "gateway_ms", NUMBER },
	{ "owner", " INTEGER NOT NULL DEFAULT -1" },
	{ "kept_ms", NUMBER }, /* on the store's clock; so are the next two */
	{ "boot", NUMBER }, { "boot_ms", NUMBER }, { "host", TEXT }, { "service", TEXT },
	{ "version", TEXT }, { "details", TEXT }, /* of a capture: its line of captures.jsonl */
	{ "sent_ms", NUMBER }, { "attached", NUMBER }, { "labels", TEXT }, /* since version 2 */
};

static const char CREATE_INDEXES[] =
	"DROP INDEX IF EXISTS moment_time; DROP INDEX IF EXISTS moment_target;"
	"DROP INDEX IF EXISTS moment_pid; DROP INDEX IF EXISTS moment_owner;"
	"CREATE INDEX IF NOT EXISTS snapshot_time ON snapshot (time_ms);"
	"CREATE INDEX IF NOT EXISTS snapshot_target ON snapshot (target, time_ms);"
	"CREATE INDEX IF NOT EXISTS snapshot_pid ON snapshot (pid, time_ms);"
	"CREATE INDEX IF NOT EXISTS snapshot_owner ON snapshot (owner, target);"
	"CREATE INDEX IF NOT EXISTS snapshot_unsent ON snapshot (id) WHERE sent_ms = 0;"
	"PRAGMA user_version = 3;";

/* Since version 3: store/notes.h. The oldest snapshot of a target takes the notes before it along.
 */
static const char CREATE_NOTES[] =
	"CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" time_ms INTEGER NOT NULL, target TEXT NOT NULL, text TEXT NOT NULL);"
	"CREATE INDEX IF NOT EXISTS note_target ON note (target, time_ms);"
	"CREATE TRIGGER IF NOT EXISTS note_expires AFTER DELETE ON snapshot WHEN NOT EXISTS"
	" (SELECT 1 FROM snapshot WHERE target = OLD.target AND time_ms < OLD.time_ms)"
	" BEGIN DELETE FROM note WHERE target = OLD.target AND time_ms < OLD.time_ms; END;";

static int error_code(const struct store *store)
{
	return store->index == NULL ? SQLITE_NOMEM : sqlite3_errcode(store->index) & 0xff;
}

bool store_fail(struct store *store, struct error *err)
{
	const int code = error_code(store);

	store->is_damaged |= code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
	if (code == SQLITE_FULL) {
		CLEANUP(free_cleanup) char *index = xasprintf("%s/index.sqlite", store->path);
		return file_write_failed(index, ENOSPC, err);
	}
	error_set(err, ERROR_SYSTEM, "%s/index.sqlite: %s", store->path,
		store->index == NULL ? "no memory" : sqlite3_errmsg(store->index));
	return store->is_damaged
		       ? error_hint(err,
				 "remove index.sqlite: what is kept is listed again, without "
				 "its memory figures")
		       : false;
}

bool store_prepare(
	struct store *store, const char *text, sqlite3_stmt **statement, struct error *err)
{
	return sqlite3_prepare_v2(store->index, text, -1, statement, NULL) == SQLITE_OK ||
	       store_fail(store, err);
}

bool store_execute(struct store *store, const char *text, struct error *err)
{
	return sqlite3_exec(store->index, text, NULL, NULL, NULL) == SQLITE_OK ||
	       store_fail(store, err);
}

int64_t store_number(struct store *store, const char *query)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v2(store->index, query, -1, &statement, NULL) != SQLITE_OK ||
		sqlite3_step(statement) != SQLITE_ROW)
		return 0;
	return sqlite3_column_int64(statement, 0);
}

static bool has_table(struct store *store, const char *name)
{
	CLEANUP(free_cleanup)
	char *query = xasprintf(
		"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '%s'", name);

	return store_number(store, query) != 0;
}

static bool add_columns(struct store *store, struct error *err)
{
	for (size_t i = 0; i < sizeof later_columns / sizeof later_columns[0]; i++) {
		CLEANUP(free_cleanup)
		char *lookup = xasprintf("SELECT count(*) FROM pragma_table_info('snapshot') "
					 "WHERE name = '%s'",
			later_columns[i].name);
		CLEANUP(free_cleanup)
		char *change = xasprintf("ALTER TABLE snapshot ADD COLUMN %s%s",
			later_columns[i].name, later_columns[i].type);
		if (store_number(store, lookup) == 0 && !store_execute(store, change, err))
			return false;
	}
	return true;
}

/* With tables, but none of heapctl's. */
static bool is_foreign(struct store *store)
{
	return store_number(store, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND "
				   "name NOT LIKE 'sqlite\\_%' ESCAPE '\\'") != 0 &&
	       store_number(store, "SELECT count(*) FROM sqlite_master AS t, "
				   "pragma_table_info(t.name) AS c WHERE t.type = 'table' AND "
				   "t.name IN ('snapshot', 'moment') AND "
				   "c.name IN ('time_ms', 'target', 'file')") != 3;
}

/* Before anything is written to it. */
static bool check_owner(struct store *store, struct error *err)
{
	if (!is_foreign(store))
		return true;
	error_set(err, ERROR_STATE, "%s/index.sqlite is the database of another program",
		store->path);
	return error_hint(err, "use another folder");
}

static bool migrate(struct store *store, struct error *err)
{
	static const char adopt[] = "ALTER TABLE moment RENAME TO snapshot";

	return (has_table(store, "snapshot") ||
		       store_execute(
			       store, has_table(store, "moment") ? adopt : CREATE_TABLE, err)) &&
	       add_columns(store, err) && store_execute(store, CREATE_NOTES, err) &&
	       store_execute(store, CREATE_INDEXES, err);
}

/* In one transaction, so that a kill leaves a known version. */
static bool bring_up_to_date(struct store *store, struct error *err)
{
	if (store_number(store, "PRAGMA user_version") == VERSION)
		return true;
	if (!store_execute(store, "BEGIN IMMEDIATE", err))
		return false;
	const int64_t version = store_number(store, "PRAGMA user_version");
	if (version > VERSION)
		error_set(err, ERROR_UNSUPPORTED, "%s was written by a newer heapctl", store->path);
	if (version <= VERSION && (version == VERSION || migrate(store, err)) &&
		store_execute(store, "COMMIT", err))
		return true;
	(void)sqlite3_exec(store->index, "ROLLBACK", NULL, NULL, NULL);
	return version > VERSION ? error_hint(err, "use that version, or another folder") : false;
}

static bool try_open(
	struct store *store, const char *path, int flags, const char *mode, struct error *err)
{
	sqlite3_close(store->index);
	store->index = NULL;
	store->is_damaged = false;
	return (sqlite3_open_v2(path, &store->index,
			SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | flags, NULL) == SQLITE_OK &&
		       sqlite3_busy_timeout(store->index, BUSY_MS) == SQLITE_OK) ||
			       store_fail(store, err)
		       ? store_execute(store, mode, err) && check_owner(store, err) &&
				 store_execute(store, SETTINGS, err) && bring_up_to_date(store, err)
		       : false;
}

/*
 * SQLite would create it readable by all, and gives its log the mode of the index. Closed before
 * SQLite opens it: closing any descriptor of a file drops the process' locks on it.
 */
static bool make_file(const struct store *store, struct error *err)
{
	const int fd =
		openat(store->fd, "index.sqlite", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0) {
		error_system(err, errno, "creating %s/index.sqlite", store->path);
		return error_hint(err, "use a folder on a disk to which this user may write");
	}
	close(fd);
	return true;
}

static bool open_reader(struct store *store, const char *path, struct error *err)
{
	if (sqlite3_open_v2(path, &store->index, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX,
		    NULL) != SQLITE_OK ||
		sqlite3_busy_timeout(store->index, BUSY_MS) != SQLITE_OK)
		return store_fail(store, err);
	if (store_number(store, "PRAGMA user_version") == VERSION)
		return true;
	error_set(err, ERROR_NOT_FOUND, "%s: no snapshots of this version", store->path);
	return error_hint(
		err, "heapctl serve or watch of this version takes over the folder when it starts");
}

/* The profiles can be listed again; the damaged index is kept beside them. */
static void set_aside(const struct store *store)
{
	(void)renameat(store->fd, "index.sqlite", store->fd, "index.sqlite.damaged");
	(void)unlinkat(store->fd, "index.sqlite-wal", 0);
	(void)unlinkat(store->fd, "index.sqlite-shm", 0);
	(void)unlinkat(store->fd, "index.sqlite-journal", 0);
}

/*
 * On a full disk SQLite has no room for its shared-memory file; in exclusive mode it needs none,
 * and what is above the limits can be removed.
 */
bool store_index_open(struct store *store, bool is_reader, struct error *err)
{
	CLEANUP(free_cleanup) char *path = xasprintf("%s/index.sqlite", store->path);

	if (is_reader)
		return open_reader(store, path, err);
	if (!make_file(store, err))
		return false;
	if (try_open(store, path, SQLITE_OPEN_CREATE, "", err) ||
		(error_code(store) == SQLITE_IOERR &&
			try_open(store, path, SQLITE_OPEN_CREATE, "PRAGMA locking_mode = EXCLUSIVE",
				err)))
		return true;
	if (!store->is_damaged || !store->format->has_list)
		return false;
	sqlite3_close(TAKE(store->index));
	set_aside(store);
	return make_file(store, err) && try_open(store, path, SQLITE_OPEN_CREATE, "", err);
}

bool store_insert(struct store *store, const struct snapshot *snapshot, const char *details,
	int64_t kept_ms, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	const struct {
		const char *text;
		int64_t number;
	} values[] = {
		{ NULL, snapshot->id },
		{ NULL, snapshot->time_ms },
		{ snapshot->target, 0 },
		{ NULL, snapshot->owner },
		{ snapshot->host, 0 },
		{ snapshot->service, 0 },
		{ snapshot->version, 0 },
		{ snapshot->labels, 0 },
		{ NULL, snapshot->pid },
		{ NULL, snapshot->started_ms },
		{ snapshot->reason, 0 },
		{ NULL, kept_ms == 0 ? 0 : store->opened_ms },
		{ snapshot->file, 0 },
		{ NULL, (int64_t)snapshot->file_bytes },
		{ details, 0 },
		{ NULL, kept_ms },
		{ NULL, kept_ms == 0 ? 0 : store->clock.source.boot },
		{ NULL, kept_ms == 0 ? 0 : store->clock.source.since_boot_ms() },
		{ NULL, snapshot->is_attached },
	};
	enum { VALUES = sizeof values / sizeof values[0] };

	if (!store_prepare(store,
		    "INSERT INTO snapshot (id, time_ms, target, owner, host, service, version, "
		    "labels, "
		    "pid, started_ms, reason, gateway_ms, file, bytes, details, kept_ms, boot, "
		    "boot_ms, attached, " STORE_FIGURE_COLUMNS
		    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
		    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		    &statement, err))
		return false;
	for (int i = 0; i < VALUES; i++) {
		if (values[i].text != NULL)
			sqlite3_bind_text(statement, i + 1, values[i].text, -1, SQLITE_STATIC);
		else
			sqlite3_bind_int64(statement, i + 1, values[i].number);
	}
	for (int i = 0; i < FIGURES; i++)
		sqlite3_bind_int64(statement, VALUES + 1 + i, (sqlite3_int64)snapshot->bytes[i]);
	return sqlite3_step(statement) == SQLITE_DONE || store_fail(store, err);
}

/* FNV-1a of the kernel's text. */
static int64_t read_boot(void)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	uint64_t hash = UINT64_C(14695981039346656037);
	struct error err;

	if (!file_read("/proc/sys/kernel/random/boot_id", &text, &err) || text.size == 0)
		return 0;
	for (size_t i = 0; i < text.size; i++)
		hash = (hash ^ (unsigned char)text.data[i]) * UINT64_C(1099511628211);
	return (int64_t)(hash >> 1) | 1;
}

struct store_time_source store_time_source_get(void)
{
	return (struct store_time_source){ clock_boottime_ms, clock_realtime_ms, read_boot() };
}

static int64_t at_least_zero(int64_t number)
{
	return number < 0 ? 0 : number;
}

/* How long ago the last snapshot was kept, as far as known. */
static int64_t passed_since(const struct store_time_source *source,
	const struct store_clock_mark *last, int64_t keep_ms)
{
	if (source->boot != 0 && last->boot == source->boot)
		return at_least_zero(source->since_boot_ms() - last->since_boot_ms);
	const int64_t passed_ms = at_least_zero(source->since_1970_ms() - last->since_1970_ms);
	return passed_ms < keep_ms / 2 ? passed_ms : keep_ms / 2;
}

void store_clock_init(struct store_clock *clock, const struct store_time_source *source,
	const struct store_clock_mark *last, int64_t keep_ms)
{
	int64_t now_ms;

	if (last == NULL) {
		now_ms = source->since_1970_ms();
	} else {
		now_ms = (last->kept_ms != 0 ? last->kept_ms : last->since_1970_ms) +
			 passed_since(source, last, keep_ms);
	}
	/* 0 marks a snapshot of an earlier version; a machine without a clock begins at 0. */
	if (now_ms < 1)
		now_ms = 1;
	*clock = (struct store_clock){ *source, now_ms - source->since_boot_ms() };
}

int64_t store_clock_ms(const struct store_clock *clock)
{
	return clock->ahead_ms + clock->source.since_boot_ms();
}
