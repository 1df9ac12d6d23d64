/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runs that are kept: a record of each, the profile of its start and of its end.
 *
 * They are files of the private folder, NAME.PID.ID.run, .start and .profile, where NAME is the
 * program's: so a server that was started again still has the runs of its earlier processes. What
 * cannot be written (no folder, full disk) or not be locked (agent/folder.h) stays in memory
 * until the process ends. Files that a living process has locked are its own, whatever their name
 * says.
 *
 * The newest entry may be a run that is on. Above the limits of `struct run_retention`
 * the oldest runs are forgotten, after the new one is safe. One thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/capture.h"
#include "agent/run_store_files.h"

/* How many finished runs are kept; the oldest are removed first. */
struct run_retention {
	size_t count; /* at least 1 */
	uint64_t bytes;
};

/*
 * `bytes` are the sizes of the runs, oldest first. Returns how many of the first to remove. The
 * newest always stays, even when it alone is above the limit.
 */
size_t run_retention_excess(
	const struct run_retention *retention, const uint64_t *bytes, size_t count);

enum { RUN_STORE_NAME_MAX = 40 };

struct run_store_entry {
	struct run run;
	int64_t file_id; /* in the names of its files; another one than the run's if that was taken
			  */
	struct descriptor memory[2]; /* by run_store_profile: those that are not in the folder */
	bool in_folder[2];
	struct file_lock locks[2]; /* of this process' own files in the folder */
	bool is_adopted;	   /* of an earlier process */
	bool only_memory;	   /* another process has files of these names */
};

struct run_store {
	const struct memory *memory;
	struct folder folder; /* path "" when there is none */
	struct run_retention retention;
	char name[RUN_STORE_NAME_MAX]; /* fit for a file's name */
	bool loaded;
	struct run_store_entry *entries; /* by id */
	size_t count;
	size_t capacity;
};

/* `folder` NULL: everything stays in memory. */
void run_store_init(struct run_store *store, const struct memory *memory,
	const struct folder *folder, const char *program, const struct run_retention *retention);

/* Files stay. */
void run_store_deinit(struct run_store *store);

/*
 * Adopts the runs of earlier processes of this program, once; later calls do nothing. Before it the
 * store has only the runs of this process. What cannot be read is skipped. Of two runs with one id,
 * which began in the same millisecond, that of the higher pid gets the next free id.
 */
void run_store_load(struct run_store *store);

/* The greatest id that is known; 0. */
int64_t run_store_last_id(const struct run_store *store);

/* Adds a run that begins, with its start profile, which is taken over. */
MUST_CHECK bool run_store_begin(struct run_store *store, const struct run *run,
	struct captured_profile *start, struct error *err);

/*
 * Brings the run up to date at its end, with its profile, which is taken over; NULL when it
 * failed. Then forgets what is too much. A record that cannot be written is no failure.
 */
void run_store_finish(
	struct run_store *store, const struct run *run, struct captured_profile *profile);

/* NULL when there is none. Valid until the store changes. */
const struct run_store_entry *run_store_find(const struct run_store *store, int64_t id);

/* That no run has the id; returns false. */
bool run_store_refuse_id(int64_t id, struct error *err);

/* Opens a kept profile for reading. ERROR_NOT_FOUND when it was not taken or is gone. */
MUST_CHECK bool run_store_open(const struct run_store *store, int64_t id,
	enum run_store_profile which, struct descriptor *file, uint64_t *size_bytes,
	struct error *err);

/* Forgets a run and removes its files. */
MUST_CHECK bool run_store_remove(struct run_store *store, int64_t id, struct error *err);
