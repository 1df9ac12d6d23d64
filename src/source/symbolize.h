/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the locations of profiles their frames. Profiles that brought names keep them. All
 * addresses of one process are asked at once. What is looked up is the address before the one
 * recorded, since heap profiles record where calls return to.
 */
#pragma once

#include "base/error.h"
#include "profile/pprof.h"
#include "profile/profile.h"
#include "symbol/symbolizer.h"

struct symbolize_options {
	const char *program; /* the executable, where it lies now; NULL: where the profile says */
	const char *lib_prefixes; /* folders separated by commas, in which programs and libraries
				   * are looked for first; NULL for none */
	pid_t pid;	   /* the process, if it still runs: to reach deleted files; 0 for none */
	const pid_t *pids; /* the same for each profile; NULL: all are of `pid` */
};

/*
 * Mappings without a build-id get that of the file that was read. Fails with ERROR_USAGE when
 * `program` is given and cannot be the one that was profiled. Files that are missing or do not
 * match are no failure: see symbolizer_reports.
 */
MUST_CHECK bool symbolize(struct symbolizer *symbolizer, struct profile *const *profiles,
	size_t count, const struct symbolize_options *options, struct error *err);

/*
 * What the files say of the mappings of a profile whose names were looked up: the segment of code
 * that each maps. One for each mapping, to be released with free(); of those whose file was not
 * found the type is 0.
 */
struct pprof_executable *symbolize_find_executables(
	const struct symbolizer *symbolizer, const struct profile *profile);

/*
 * Moves mappings and their addresses to where the files themselves have them (vaddr), for readers
 * that look them up in the files. Mappings of unknown files stay. Mappings overlap afterwards: the
 * profile is only for writing.
 */
void symbolize_use_file_addresses(
	struct profile *profile, const struct pprof_executable *executables);

/* Whether any location of the profile has an address and no name yet. */
bool symbolize_is_needed(const struct profile *profile);

/*
 * Adds the executable segments of an ELF file as mappings at the addresses that it was linked for,
 * where the profile has no mapping yet: for a profile that does not say where it was loaded.
 */
MUST_CHECK bool program_mappings_add(struct profile *profile, const char *path, struct error *err);
