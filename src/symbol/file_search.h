/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files of a profiled process: programs, libraries, their separate debug files.
 *
 * Every path that is tried is recorded with the file found there. A later run that finds the same
 * files at the same paths would come to the same result, so it need not search (symbol_cache.h).
 * Files of other users are among them: a path below a sysroot or a process' root is resolved there,
 * and a build-id alone proves nothing, because any file can claim one. The functions may be called
 * from several threads at once for the same search.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "symbol/elf_image.h"
#include "symbol/symbol.h"
#include "symbol/work.h"

struct debuginfod;

/* What stat(2) says of a file; all zero when there is none. */
struct file_identity {
	uint64_t device;
	uint64_t inode;
	uint64_t size;
	uint64_t modified_ns;
	uint64_t changed_ns; /* its owner cannot set this one */
};

struct file_probe {
	char *path;
	struct file_identity identity;
};

struct file_search {
	const struct symbolizer_options *options;
	pid_t pid;		       /* a live process to look through, 0 for none */
	struct debuginfod *debuginfod; /* tried last; borrowed; NULL when not allowed */
	struct buffer problem; /* why debuginfod or what was found is of no use; empty when it is */
	struct buffer hint;    /* also without a problem: debuginfod_fetch */
	bool is_missed;	       /* debuginfod did not give it, but may another time */
	char *download;	       /* what debuginfod gave, in its client's cache; NULL for nothing */
	bool found_damaged;    /* the problem is a file that cannot be read */
	bool skips_indexes;    /* file_search_debug takes none */
	/* The source of the names of a debug file; false where it is damaged. */
	bool (*debug_source)(
		const struct elf_image *image, enum symbol_source *source, struct error *err);
	char **skipped; /* paths of debug files that turned out to be damaged */
	size_t skipped_count, skipped_capacity;
	pthread_mutex_t lock;
	struct file_probe *probes;
	size_t probe_count, probe_capacity;
	bool is_unsteady; /* a path had different files at different times */
	struct work_budget budget;
};

void file_search_init(
	struct file_search *search, const struct symbolizer_options *options, pid_t pid);
void file_search_deinit(struct file_search *search);

/* The identity of what is at `path`, following links; all zero for nothing or no regular file. */
struct file_identity file_identify(const char *path);

static inline bool file_identity_equal(const struct file_identity *a, const struct file_identity *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

/* The same for a path of the search: below another root, links stay there (rooted_file.h). */
struct file_identity file_search_identify(const struct file_search *search, const char *path);

/*
 * Opens a path of the search and remembers what was there. False also when no regular file is
 * there, and then sets `is_there` to false.
 */
MUST_CHECK bool file_search_open(struct file_search *search, const char *path,
	struct elf_image *image, bool *is_there, struct error *err);

/*
 * The paths where `path` of the profiled process may be found here: under the sysroot, or else
 * through the live process' root and as it is. 0 or 1 for `which`; false past the last.
 */
bool file_search_place(
	const struct file_search *search, const char *path, unsigned which, struct buffer *place);

/* The debug file of a build-id; `suffix` is ".debug", or "" for the program itself. */
MUST_CHECK bool file_search_build_id(struct file_search *search, const char *build_id,
	const char *suffix, struct elf_image *image);

/* The index of a build-id in the cache (symbol_index.h). */
MUST_CHECK bool file_search_index(
	struct file_search *search, const char *build_id, struct elf_image *image);

/* Where it is below the folder of the cache: appended to `path`. False for a malformed build-id. */
bool file_search_index_path(const char *build_id, struct buffer *path);

/* The same from the debuginfod servers, where they may be asked. */
MUST_CHECK bool file_search_download(
	struct file_search *search, const char *build_id, struct elf_image *image);

/*
 * The separate debug file of an image: by its build-id, then by its .gnu_debuglink, whose target
 * must have the image's build-id or the right CRC; then from the servers. The first one with DWARF,
 * or an index made of it, else the first one with a symbol table.
 */
MUST_CHECK bool file_search_debug(
	struct file_search *search, const struct elf_image *image, struct elf_image *debug);

/*
 * What to do about a file that cannot be used: `hint`, but for a download, which its client takes
 * from its cache each time, to remove it. In `out` for a download.
 */
const char *file_search_hint(
	const struct file_search *search, const char *path, const char *hint, struct buffer *out);

/* Makes file_search_debug ignore a path from now on. */
void file_search_skip(struct file_search *search, const char *path);

/*
 * The file that dwz moved common parts of `debug` to (elf_image_alternate_link). Where it cannot be
 * used, `problem` says why, with its path.
 */
MUST_CHECK bool file_search_alternate(struct file_search *search, const struct elf_image *debug,
	struct elf_image *alternate, struct buffer *problem);

/* Finds the Debian packages of files in dpkg's lists, for hints about what to install. */

/*
 * Sets names[i] to the package of paths[i], to be freed, or to NULL. Each list is read once, for
 * all paths. On other systems nothing is found.
 */
void debian_package_find(const char *const *paths, size_t count, char **names);
