/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers for the addresses of a module, kept on disk for the next run.
 *
 * One file per *subject*: a module's path and build-id, and the file there by what stat(2) says of
 * it. A build-id alone is not enough: any file can claim one. It has the frames by file offset, and
 * the results of the search for files (its *probes*), so that a run which would come to the same
 * result opens no ELF file. Files are replaced as a whole; one that is truncated, damaged or of
 * another version is ignored. Their total size is limited: the oldest are removed first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "symbol/elf_image.h"
#include "symbol/file_search.h"
#include "symbol/symbol.h"

enum {
	SYMBOL_CACHE_LIMIT_BYTES = 256 << 20, /* all files together */
	SYMBOL_CACHE_FILE_LIMIT_BYTES = 64 << 20,
};

/*
 * Makes the directory, and those above it, for this user alone. False when that is impossible, or
 * when another user could have put files there.
 */
bool symbol_cache_prepare(const char *path);

/* Removes the oldest files until the rest is within `limit` bytes, and abandoned temporary ones. */
void symbol_cache_trim(const char *path, size_t limit);

/* The answer for one address. */
struct symbol_cache_answer {
	uint64_t file_offset;
	const struct symbol_frame *frames; /* innermost first */
	size_t frame_count;
	uint32_t into_function; /* see symbol_table.h */
};

/* The contents of a file. Texts and arrays are borrowed from the caller. */
struct symbol_cache_entry {
	const char *subject;
	uint64_t options_hash; /* of the options for the search for files */
	struct symbol_module_report report;
	struct file_probe *probes;
	size_t probe_count;
	struct elf_segment *segments; /* of the mapped file; none for a debug file */
	size_t segment_count;
	struct symbol_cache_answer *answers; /* sorted by file offset, distinct */
	size_t answer_count;
};

/* An entry that was read, with its memory. */
struct symbol_cache {
	struct symbol_cache_entry entry;
	struct buffer contents;
	void *tables;
};

/*
 * `directory` passed symbol_cache_prepare. False when there is no usable file for the subject.
 */
MUST_CHECK bool symbol_cache_read(
	const char *directory, const char *subject, struct symbol_cache *cache);
void symbol_cache_deinit(struct symbol_cache *cache);

/* NULL when the address is not there. */
const struct symbol_cache_answer *symbol_cache_find(
	const struct symbol_cache *cache, uint64_t file_offset);

/*
 * Replaces the subject's file, then removes the oldest ones. False when the entry is too large for
 * a file; a failure to write it is ignored.
 */
bool symbol_cache_write(const char *directory, const struct symbol_cache_entry *entry);
