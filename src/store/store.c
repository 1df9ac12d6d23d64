/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <zstd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "store/capture_list.h"
#include "store/retention.h"
#include "store/store_index.h"

enum { COMPRESSION_LEVEL = 6 };

static const struct store_format formats[] = {
	[STORE_HISTORY] = {
		.suffix = ".heap.zst",
		.min_digits = 13,
		.is_compressed = true,
		.contents = "the history",
		.busy = "is the history of another heapctl serve",
		.busy_hint = "use a folder for each",
		.free_option = "--history-free",
	},
	[STORE_CAPTURES] = {
		.suffix = ".heap",
		.min_digits = 8,
		.has_list = true,
		.makes_room = true,
		.contents = "the captures",
		.busy = "is in use by another heapctl watch",
		.busy_hint = "use a folder for each with --keep",
		.free_option = "keep-free",
	},
};

static bool fail_denied(
	const struct store *store, const char *name, const char *why, struct error *err)
{
	error_set(err, ERROR_DENIED, "%s%s%s %s: another user could change %s", store->path,
		name[0] == '\0' ? "" : "/", name, why, store->format->contents);
	return error_hint(err,
		"use a folder that belongs to the %s user, with mode 700 and nothing else in it",
		store->format->has_list ? "watch's" : "gateway's");
}

/* The folder's contents are trusted, and links in it would be written through. */
static bool check_trust(const struct store *store, struct error *err)
{
	static const char *const names[] = { "", "index.sqlite", "index.sqlite-wal",
		"index.sqlite-shm", "index.sqlite-journal" };
	struct stat status;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *const name = names[i];
		const int failed = i == 0 ? fstat(store->fd, &status)
					  : fstatat(store->fd, name, &status, AT_SYMLINK_NOFOLLOW);
		if (failed != 0 && i > 0 && errno == ENOENT)
			continue;
		if (failed != 0)
			return error_system(err, errno, "%s/%s", store->path, name);
		if (i > 0 && (!S_ISREG(status.st_mode) || status.st_nlink > 1))
			return fail_denied(store, name, "is a link or not a file", err);
		if (status.st_uid != geteuid() && status.st_uid != 0)
			return fail_denied(store, name, "belongs to another user", err);
		if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
			return fail_denied(store, name, "may be written to by others", err);
	}
	return true;
}

static bool open_folder(struct store *store, struct error *err)
{
	store->fd = open(store->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return store->fd >= 0 || error_system(err, errno, "%s", store->path);
}

static bool open_locked(struct store *store, struct error *err)
{
	if (!file_make_folder(store->path, 0700, err) || !open_folder(store, err))
		return false;
	/* SQLite's own message would not name the reason. */
	if (faccessat(store->fd, ".", W_OK, AT_EACCESS) != 0) {
		error_system(err, errno, "%s", store->path);
		return error_hint(err, "use a folder on a disk to which this user may write");
	}
	if (!check_trust(store, err))
		return false;
	if (flock(store->fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	error_set(err, ERROR_STATE, "%s %s", store->path, store->format->busy);
	return error_hint(err, "%s", store->format->busy_hint);
}

static bool start_clock(struct store *store, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *last = NULL;
	struct store_time_source source =
		store->limits.time != NULL ? *store->limits.time : store_time_source_get();
	struct store_clock_mark mark;

	if (!store_prepare(store,
		    "SELECT kept_ms, boot, boot_ms, time_ms, bytes FROM snapshot "
		    "ORDER BY id DESC LIMIT 1",
		    &last, err))
		return false;
	const int step = sqlite3_step(last);
	if (step != SQLITE_ROW && step != SQLITE_DONE)
		return store_fail(store, err);
	if (step == SQLITE_ROW)
		store->last_bytes = (uint64_t)sqlite3_column_int64(last, 4);
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

/* Writes captures.jsonl from the index. On a full disk it is written the next time. */
static void write_list(struct store *store)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(statement_cleanup) sqlite3_stmt *rows = NULL;
	CLEANUP(free_cleanup) char *path = xasprintf("%s/" CAPTURE_LIST, store->path);
	struct error unwritten;
	int step;

	if (!store_prepare(store, "SELECT details FROM snapshot ORDER BY id", &rows, &unwritten))
		return;
	while ((step = sqlite3_step(rows)) == SQLITE_ROW) {
		const char *const line = (const char *)sqlite3_column_text(rows, 0);
		buffer_append_string(&text, line);
		buffer_append_string(&text, line[0] == '\0' ? "" : "\n");
	}
	if (step == SQLITE_DONE && text.size > 0)
		(void)!file_write(path, text.data, text.size, 0600, &unwritten);
}

static struct store *store_new(
	const char *path, enum store_use use, const struct store_limits *limits)
{
	struct store *const store = xcalloc(1, sizeof *store);

	store->fd = -1;
	store->format = &formats[use];
	store->limits = *limits;
	store->opened_ms = clock_realtime_ms();
	pthread_mutex_init(&store->mutex, NULL);
	snprintf(store->path, sizeof store->path, "%s", path);
	return store;
}

bool store_open(const char *path, enum store_use use, const struct store_limits *limits,
	struct store **ret, struct error *err)
{
	CLEANUP(store_cleanup) struct store *store = store_new(path, use, limits);

	if (strlen(path) >= sizeof store->path)
		return error_system(err, ENAMETOOLONG, "%.100s...", path);
	if (!open_locked(store, err) || !store_index_open(store, false, err) ||
		!store_repair(store, err) || !start_clock(store, err) ||
		!store_usage_load(store, err))
		return false;
	if (store->format->has_list)
		write_list(store);
	*ret = TAKE(store);
	return true;
}

bool store_open_reader(const char *path, enum store_use use, struct store **ret, struct error *err)
{
	const struct store_limits none = { 0 };
	CLEANUP(store_cleanup) struct store *store = store_new(path, use, &none);

	store->is_reader = true;
	if (!open_folder(store, err) || !check_trust(store, err))
		return false;
	if (faccessat(store->fd, "index.sqlite", F_OK, 0) != 0)
		return error_set(err, ERROR_NOT_FOUND, "%s has no index", path);
	if (!store_index_open(store, true, err))
		return false;
	*ret = TAKE(store);
	return true;
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

size_t store_relisted_count(const struct store *store)
{
	return store->relisted_count;
}

bool store_take_replaced(struct store *store)
{
	STORE_HOLD(store);
	const bool was_replaced = store->was_replaced;

	store->was_replaced = false;
	return was_replaced;
}

char *store_take_list_damage(struct store *store)
{
	STORE_HOLD(store);
	const struct capture_list_damage damage = store->list_damage;

	store->list_damage = (struct capture_list_damage){ 0 };
	return damage.count == 0 ? NULL : capture_list_describe_damage(store->path, &damage);
}

const char *store_folder(const struct store *store)
{
	return store->path;
}

void store_set_limits(struct store *store, const struct store_limits *limits)
{
	STORE_HOLD(store);
	store->limits = *limits;
}

/* SQLite opens its file by a path without links, so it does not notice another link. */
static bool is_same_folder(const struct store *store)
{
	struct stat opened, named;

	return fstat(store->fd, &opened) == 0 && stat(store->path, &named) == 0 &&
	       opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* False after its file was removed or replaced, alone or with the folder. */
static bool is_current(struct store *store)
{
	int has_moved = 0;

	return is_same_folder(store) && store->index != NULL && !store->is_damaged &&
	       sqlite3_file_control(store->index, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) ==
		       SQLITE_OK &&
	       has_moved == 0;
}

/* SQLite must not remove the log of the new index. */
static void close_index(struct store *store)
{
	int persistent = 1;

	if (store->index != NULL)
		(void)sqlite3_file_control(
			store->index, "main", SQLITE_FCNTL_PERSIST_WAL, &persistent);
	sqlite3_close(TAKE(store->index));
	if (store->fd >= 0)
		close(store->fd);
	store->fd = -1;
}

/* If it fails, the next change tries again. */
bool store_reopen(struct store *store, struct error *err)
{
	struct store *fresh = NULL;

	if (store->is_reader || is_current(store))
		return true;
	close_index(store);
	if (!store_open(store->path, (enum store_use)(store->format - formats), &store->limits,
		    &fresh, err))
		return false;
	store_usage_deinit(&store->usage);
	store->fd = fresh->fd;
	store->index = TAKE(fresh->index);
	store->usage = fresh->usage;
	store->clock = fresh->clock;
	store->last_bytes = fresh->last_bytes;
	store->list_damage = fresh->list_damage;
	store->was_replaced |= !store->is_damaged;
	store->is_damaged = false;
	if (fresh->last_id > store->last_id)
		store->last_id = fresh->last_id;
	fresh->fd = -1;
	fresh->usage = (struct store_usage){ 0 };
	store_close(fresh);
	return true;
}

/* A process may have any name; here it must be one path component. */
static void clean_name(char *name)
{
	for (; *name != '\0'; name++) {
		if (!isalnum((unsigned char)*name) && strchr("._-+@", *name) == NULL)
			*name = '_';
	}
}

enum { NAMES_TRIED = 1000 };

static void make_name(const struct store *store, struct snapshot *snapshot)
{
	const time_t now = (time_t)(clock_realtime_ms() / 1000);
	char *const name = snapshot->file;
	char date[32];
	struct tm parts;

	if (store->format->has_list) {
		gmtime_r(&now, &parts);
		strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &parts);
		snprintf(name, SNAPSHOT_NAME_BYTES, "%08" PRId64 "-%s-%.40s-%.120s%s", snapshot->id,
			date, snapshot->tag, snapshot->stem, store->format->suffix);
	} else {
		snprintf(name, SNAPSHOT_NAME_BYTES, "%013" PRId64 "-%" PRId64 "-%.120s%s",
			snapshot->time_ms, snapshot->pid, snapshot->target, store->format->suffix);
	}
	clean_name(name);
}

static bool has_file(const struct store *store, const char *name)
{
	return faccessat(store->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * With the mutex held, as are the functions below. In a history the name has the time: of two
 * snapshots of a process in one millisecond, a watch's and the interval's, the second one is of the
 * next.
 */
static bool name_next(struct store *store, struct snapshot *snapshot, struct error *err)
{
	if (!store_reopen(store, err))
		return false;
	snapshot->id = ++store->last_id;
	make_name(store, snapshot);
	for (int i = 0; i < NAMES_TRIED && has_file(store, snapshot->file); i++) {
		snapshot->time_ms += !store->format->has_list;
		make_name(store, snapshot);
	}
	if (has_file(store, snapshot->file))
		return error_set(err, ERROR_STATE, "%s has this snapshot already", store->path);
	return true;
}

static bool begin(
	struct store *store, struct snapshot *snapshot, struct file_draft *draft, struct error *err)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s", store->path, snapshot->file);
	return file_draft_open(path, 0600, draft, err);
}

/* The whole line: the caller's `details`, and the columns of the store. */
static char *describe(const struct snapshot *snapshot)
{
	const size_t size = snapshot->details == NULL ? 0 : strlen(snapshot->details);

	if (size < 2)
		return xstrdup("");
	return xasprintf("%.*s%s\"file\":\"%s\",\"bytes\":%" PRIu64 "}", (int)(size - 1),
		snapshot->details, size > 2 ? "," : "", snapshot->file, snapshot->file_bytes);
}

static bool insert_row(struct store *store, const struct snapshot *snapshot, struct error *err)
{
	CLEANUP(free_cleanup) char *details = describe(snapshot);
	const int64_t now_ms = store_clock_ms(&store->clock);

	if (store_insert(store, snapshot, details, now_ms, err))
		return true;
	return err->errnum == ENOSPC && retention_free_surplus(store, now_ms) &&
	       store_insert(store, snapshot, details, now_ms, err);
}

/* The file is in place; its row makes it a snapshot. */
static bool record(struct store *store, struct snapshot *snapshot, struct error *err)
{
	struct stat status;
	const bool is_safe = (fsync(store->fd) == 0 && fstatat(store->fd, snapshot->file, &status,
							       AT_SYMLINK_NOFOLLOW) == 0) ||
			     error_system(err, errno, "%s/%s", store->path, snapshot->file);

	if (is_safe)
		snapshot->file_bytes = (uint64_t)status.st_size;
	if (!is_safe || !insert_row(store, snapshot, err))
		return false;
	store->last_bytes = snapshot->file_bytes;
	store_usage_add(store, snapshot->target, snapshot->owner, (int64_t)snapshot->file_bytes);
	retention_apply(store, snapshot->id, store_clock_ms(&store->clock));
	if (store->format->has_list)
		write_list(store);
	return true;
}

static bool record_or_remove(struct store *store, struct snapshot *snapshot, struct error *err)
{
	if (record(store, snapshot, err))
		return true;
	unlinkat(store->fd, snapshot->file, 0);
	return false;
}

static bool sync_draft(struct file_draft *draft, struct error *err)
{
	return (fsync(draft->fd) == 0 || error_system(err, errno, "%s", draft->path)) &&
	       file_draft_commit(draft, err);
}

bool store_check_room(struct store *store, struct error *err)
{
	STORE_HOLD(store);
	return retention_check_room(store, NULL, store->last_bytes, err);
}

bool store_begin(
	struct store *store, struct snapshot *snapshot, struct file_draft *draft, struct error *err)
{
	STORE_HOLD(store);
	return store_reopen(store, err) &&
	       retention_make_room(
		       store, snapshot, store->last_bytes, store_clock_ms(&store->clock), err) &&
	       name_next(store, snapshot, err) && begin(store, snapshot, draft, err);
}

bool store_commit(
	struct store *store, struct snapshot *snapshot, struct file_draft *draft, struct error *err)
{
	if (!sync_draft(draft, err))
		return false;
	STORE_HOLD(store);
	return record_or_remove(store, snapshot, err);
}

/* With a checksum, so that corruption on disk is noticed when it is read. */
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

static bool write_file(struct store *store, struct snapshot *snapshot, const void *data,
	size_t size, struct error *err)
{
	struct file_draft draft = { .fd = -1 };

	if (begin(store, snapshot, &draft, err) &&
		file_write_fd(draft.fd, draft.path, data, size, err) && sync_draft(&draft, err))
		return true;
	file_draft_discard(&draft);
	return false;
}

/* The disk, or what this user may have of it, is full. */
static bool is_full(const struct error *err)
{
	return err->errnum == ENOSPC || err->errnum == EDQUOT;
}

bool store_add(struct store *store, struct snapshot *snapshot, const void *profile, size_t size,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer compressed = BUFFER_OR_EXIT;

	if (store->format->is_compressed) {
		if (!compress(profile, size, &compressed, err))
			return false;
		profile = compressed.data;
		size = compressed.size;
	}
	STORE_HOLD(store);
	if (!store_reopen(store, err))
		return false;
	const int64_t now_ms = store_clock_ms(&store->clock);
	return retention_make_room(store, snapshot, size, now_ms, err) &&
	       name_next(store, snapshot, err) &&
	       (write_file(store, snapshot, profile, size, err) ||
		       (is_full(err) && retention_free_surplus(store, now_ms) &&
			       write_file(store, snapshot, profile, size, err))) &&
	       record_or_remove(store, snapshot, err);
}

static bool move_in(struct store *store, const char *path, struct snapshot *snapshot,
	bool *is_elsewhere, struct error *err)
{
	CLEANUP(free_cleanup) char *name = NULL;
	STORE_HOLD(store);

	if (!name_next(store, snapshot, err))
		return false;
	name = xasprintf("%s/%s", store->path, snapshot->file);
	if (rename(path, name) != 0) {
		*is_elsewhere = errno == EXDEV;
		return error_system(err, errno, "%s", path);
	}
	if (record(store, snapshot, err))
		return true;
	(void)rename(name, path);
	return false;
}

bool store_take(
	struct store *store, const char *path, int fd, struct snapshot *snapshot, struct error *err)
{
	struct file_draft draft = { .fd = -1 };
	bool is_elsewhere = false;

	if (fsync(fd) != 0)
		return error_system(err, errno, "%s", path);
	if (move_in(store, path, snapshot, &is_elsewhere, err))
		return true;
	if (!is_elsewhere)
		return false;
	if (!store_begin(store, snapshot, &draft, err) ||
		!file_copy_fd(fd, path, draft.fd, draft.path, err) ||
		!store_commit(store, snapshot, &draft, err)) {
		file_draft_discard(&draft);
		return false;
	}
	unlink(path);
	return true;
}
