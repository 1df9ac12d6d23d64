/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of kept runs: their names, and how they are written so that a reader sees all
 * of one or nothing. NAME.PID.ID.run is the record, .start and .profile are its profiles.
 */
#pragma once

#include "agent/descriptor.h"
#include "agent/folder.h"
#include "agent/run.h"
#include "base/memory.h"

enum run_store_profile {
	RUN_STORE_START,
	RUN_STORE_END,
};

/* A program's name as part of a file's name: letters, digits, '-', '_'; others become '_'. */
void run_store_files_program_name(const char *program, char *name, size_t size);

/*
 * Calls `visit` for each record of that name whose process is gone: it has locked none of the run's
 * profiles, and its pid is no other process' here. Removes what such processes left half done.
 * Quiet about what cannot be read.
 */
void run_store_files_scan(const struct folder *folder, const char *name,
	const struct memory *memory, void (*visit)(void *context, const struct run *run),
	void *context);

/*
 * Copies the profile into the folder, and keeps it locked. ERROR_SYSTEM with EEXIST when another
 * process has a file of that name.
 */
MUST_CHECK bool run_store_files_save_profile(const struct folder *folder, const char *name,
	const struct run *run, enum run_store_profile which, const struct descriptor *profile,
	struct file_lock *lock, struct error *err);

/* Silent when it fails: later processes will not have the run. */
void run_store_files_save_record(const struct folder *folder, const char *name,
	const struct memory *memory, const struct run *run);

MUST_CHECK bool run_store_files_open_profile(const struct folder *folder, const char *name,
	const struct run *run, enum run_store_profile which, struct descriptor *file,
	uint64_t *size_bytes, struct error *err);

/*
 * Removes those profiles, and the record if there is one of them: another process may have files of
 * these names, of a run that began in the same millisecond.
 */
void run_store_files_remove(const struct folder *folder, const char *name, const struct run *run,
	const bool profiles[2]);
