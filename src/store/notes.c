/* SPDX-License-Identifier: Apache-2.0 */
#include "store/notes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash_index.h"
#include "base/xalloc.h"
#include "profile/bundle.h"
#include "store/note_text.h"
#include "store/store_index.h"

bool store_find_name(struct store *store, const char *text, char name[128], struct error *err)
{
	const struct store_query query = { .target = text, .to_ms = INT64_MAX };
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *row = NULL;

	if (!store_prepare_query(store, &query, "target", "", STORE_LAST, &row, err))
		return false;
	const int step = sqlite3_step(row);
	if (step == SQLITE_DONE) {
		error_set(err, ERROR_NOT_FOUND, "there is no history of %.100s", text);
		return error_hint(err, "nothing was stored of it yet, or it has expired");
	}
	if (step != SQLITE_ROW)
		return store_fail(store, err);
	snprintf(name, 128, "%s", (const char *)sqlite3_column_text(row, 0));
	return true;
}

static bool insert(struct store *store, struct store_note *note, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *row = NULL;

	if (!store_prepare(store, "INSERT INTO note (time_ms, target, text) VALUES (?1, ?2, ?3)",
		    &row, err))
		return false;
	sqlite3_bind_int64(row, 1, note->time_ms);
	sqlite3_bind_text(row, 2, note->target, -1, SQLITE_STATIC);
	sqlite3_bind_text(row, 3, note->text, -1, SQLITE_STATIC);
	if (sqlite3_step(row) != SQLITE_DONE)
		return store_fail(store, err);
	note->id = sqlite3_last_insert_rowid(store->index);
	return true;
}

/* Of the notes above the limit the oldest are removed, but never the one just kept. */
static bool remove_surplus(struct store *store, const struct store_note *note, struct error *err)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *rows = NULL;

	if (!store_prepare(store,
		    "DELETE FROM note WHERE id IN (SELECT id FROM note WHERE target = ?1 AND id <> "
		    "?2 ORDER BY time_ms DESC, id DESC LIMIT -1 OFFSET ?3)",
		    &rows, err))
		return false;
	sqlite3_bind_text(rows, 1, note->target, -1, SQLITE_STATIC);
	sqlite3_bind_int64(rows, 2, note->id);
	sqlite3_bind_int64(rows, 3, STORE_NOTES_MAX - 1);
	return sqlite3_step(rows) == SQLITE_DONE || store_fail(store, err);
}

/* The clock of another host may be ahead by a little. */
static bool check_time(const struct store_note *note, struct error *err)
{
	enum { AHEAD_MAX_MS = 5 * 60 * 1000 };

	if (note->time_ms <= clock_realtime_ms() + AHEAD_MAX_MS)
		return true;
	error_set(err, ERROR_USAGE, "the time of the note is in the future");
	return error_hint(err, "write it when it has happened, or check the clocks of the hosts");
}

bool store_add_note(struct store *store, struct store_note *note, struct error *err)
{
	if (!note_text_check(note->text, err) || !check_time(note, err))
		return false;
	STORE_HOLD(store);
	if (!store_reopen(store, err) || !store_execute(store, "BEGIN IMMEDIATE", err))
		return false;
	if (insert(store, note, err) && remove_surplus(store, note, err) &&
		store_execute(store, "COMMIT", err))
		return true;
	(void)sqlite3_exec(store->index, "ROLLBACK", NULL, NULL, NULL);
	return false;
}

bool store_remove_note(struct store *store, const char *target, int64_t id, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *row = NULL;

	if (!store_reopen(store, err) ||
		!store_prepare(store, "DELETE FROM note WHERE id = ?1 AND target = ?2", &row, err))
		return false;
	sqlite3_bind_int64(row, 1, id);
	sqlite3_bind_text(row, 2, target, -1, SQLITE_STATIC);
	if (sqlite3_step(row) != SQLITE_DONE)
		return store_fail(store, err);
	if (sqlite3_changes(store->index) > 0)
		return true;
	error_set(err, ERROR_NOT_FOUND, "%.100s has no note %" PRId64, target, id);
	return error_hint(err, "heapctl note --list %.100s shows the notes", target);
}

void store_put_note(struct json_writer *json, const struct store_note *note)
{
	json_object_begin(json);
	json_member_integer(json, "id", note->id);
	json_member_integer(json, "time_ms", note->time_ms);
	json_member_string(json, "target", note->target);
	json_member_string(json, "text", note->text);
	json_object_end(json);
}

static bool list_of_name(struct store *store, const struct store_query *query, const char *name,
	struct json_writer *json, size_t *count, struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *row = NULL;
	size_t found = 0;
	int step;

	if (!store_prepare(store,
		    "SELECT id, time_ms, target, text FROM note WHERE target = ?1 AND time_ms "
		    "BETWEEN ?2 AND ?3 ORDER BY time_ms, id",
		    &row, err))
		return false;
	sqlite3_bind_text(row, 1, name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(row, 2, query->from_ms);
	sqlite3_bind_int64(row, 3, query->to_ms);
	json_array_begin(json);
	for (; (step = sqlite3_step(row)) == SQLITE_ROW; found++) {
		const struct store_note note = {
			.id = sqlite3_column_int64(row, 0),
			.time_ms = sqlite3_column_int64(row, 1),
			.target = (const char *)sqlite3_column_text(row, 2),
			.text = (const char *)sqlite3_column_text(row, 3),
		};
		store_put_note(json, &note);
	}
	json_array_end(json);
	if (count != NULL)
		*count = found;
	return step == SQLITE_DONE || store_fail(store, err);
}

bool store_list_notes(struct store *store, const struct store_query *query,
	struct json_writer *json, size_t *count, struct error *err)
{
	char name[128];

	if (store_find_name(store, query->target, name, err))
		return list_of_name(store, query, name, json, count, err);
	/* A target without a snapshot may have notes, too. */
	return err->kind == ERROR_NOT_FOUND &&
	       list_of_name(store, query, query->target, json, count, err);
}

static bool list_text(struct store *store, const struct store_query *query, struct buffer *text,
	size_t *count, struct error *err)
{
	struct json_writer json;

	json_init(&json, text);
	return store_list_notes(store, query, &json, count, err);
}

bool store_append_notes(
	struct store *store, const struct store_query *query, struct buffer *tar, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	size_t count = 0;

	if (!list_text(store, query, &text, &count, err))
		return false;
	if (count > 0)
		tar_append(tar, STORE_NOTES_MEMBER, text.data, text.size, 0);
	return true;
}

bool store_hash_notes(
	struct store *store, const struct store_query *query, uint64_t *hash, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (!list_text(store, query, &text, NULL, err))
		return false;
	*hash = hash_fixed_bytes(text.data, text.size);
	return true;
}
