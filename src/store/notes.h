/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes: what a user wrote about a time in the history of a target, such as a deploy. They are rows
 * of the index (store/store_index.h), of a name, like its snapshots: a note is of all processes
 * that had it. A note is removed with the oldest snapshot that is later than it, and with the
 * index.
 *
 * Each change is one transaction of SQLite, on the disk before the call returns, and SQLite's
 * lock keeps processes apart: one that has the store open for reading may write notes, too.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "store/store.h"

/* Of a target; the oldest is removed for one more. */
enum { STORE_NOTES_MAX = 500 };

/* The member of a tar of a series that has its notes: the array of store_list_notes. */
#define STORE_NOTES_MEMBER "notes.json"

struct store_note {
	int64_t id;	 /* increases, and is never used twice */
	int64_t time_ms; /* that it is about, since 1970 */
	const char *target, *text;
};

/* The name of the last target with a snapshot that has this name, or this pid. ERROR_NOT_FOUND. */
MUST_CHECK bool store_find_name(
	struct store *store, const char *text, char name[128], struct error *err);

/* Checks and keeps it; sets its id. */
MUST_CHECK bool store_add_note(struct store *store, struct store_note *note, struct error *err);

/* ERROR_NOT_FOUND when that target has no such note. */
MUST_CHECK bool store_remove_note(
	struct store *store, const char *target, int64_t id, struct error *err);

/*
 * Appends an array of the notes of the query's target (a name, or a pid) and time, oldest first;
 * `count` may be NULL. Of a process in the query they are all the notes of its name.
 */
MUST_CHECK bool store_list_notes(struct store *store, const struct store_query *query,
	struct json_writer *json, size_t *count, struct error *err);

/* A note of that array. */
void store_put_note(struct json_writer *json, const struct store_note *note);

/* Appends that array to a tar as its member STORE_NOTES_MEMBER; nothing when there is no note. */
MUST_CHECK bool store_append_notes(struct store *store, const struct store_query *query,
	struct buffer *tar, struct error *err);

/* A number that changes with them. */
MUST_CHECK bool store_hash_notes(
	struct store *store, const struct store_query *query, uint64_t *hash, struct error *err);
