/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes an index of symbols (symbol_index.h): asks the readers of symbol tables and DWARF for every
 * address at which the answer may change, so a report with the index has what it would have with
 * the files.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "symbol/elf_image.h"
#include "symbol/symbol.h"

/* What an index was made from, and what is in it. */
struct symbol_index_summary {
	char build_id[ELF_BUILD_ID_TEXT_BYTES];
	char *debug_file;      /* with the debug information; to be freed */
	uint64_t source_bytes; /* size of that file */
	uint64_t range_count;
	uint64_t function_count;
	enum symbol_source source;
};

void symbol_index_summary_deinit(struct symbol_index_summary *summary);

/*
 * Whether an index of this source may be written to the path: there is nothing to lose there, or an
 * index that is not better. What is no ELF file in the cache is a damaged index. ERROR_STATE.
 */
MUST_CHECK bool symbol_index_may_replace(
	const char *path, bool is_in_cache, enum symbol_source source, struct error *err);

/*
 * Appends the index of a program, a library or a debug file to `out`. The options say where its
 * debug file is searched for. ERROR_INPUT for a file without a build-id, one that has exported
 * symbols only, and a damaged one. Its place below a folder is that of file_search_index_path.
 */
MUST_CHECK bool symbol_index_make(const char *path, const struct symbolizer_options *options,
	struct buffer *out, struct symbol_index_summary *summary, struct error *err);
