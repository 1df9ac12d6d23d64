/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of symbols: what a file and its debug file say of every address, in a few per cent of
 * their size. `heapctl symbols index` makes it, and reports use it in place of the debug file.
 *
 * It is an ELF file with the build-id, the segments and one section of its own, so it is found
 * where debug files are found: in the cache, by --build-id-dir, from a debuginfod server. Like them
 * it is input, which may be damaged or hostile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/dwarf.h"
#include "symbol/elf_image.h"
#include "symbol/symbol.h"
#include "symbol/work.h"

struct symbol_index;

bool symbol_index_exists(const struct elf_image *image);

/* The image and the budget are borrowed. */
MUST_CHECK bool symbol_index_open(const struct elf_image *image, struct work_budget *budget,
	struct symbol_index **index, struct error *err);
void symbol_index_free(struct symbol_index *index);

DEFINE_CLEANUP(symbol_index_cleanup, struct symbol_index *, symbol_index_free)

/* Of file_search.h: the source of the names of a debug file or an index. */
bool symbol_index_debug_source(
	const struct elf_image *image, enum symbol_source *source, struct error *err);

/* The source of the names that it was made from. */
enum symbol_source symbol_index_source(const struct symbol_index *index);

/*
 * One answer for each of the sorted addresses; they live as long as the index. Functions without a
 * linkage name in DWARF have the symbol table's. `threads` is as of parallel_run. May be called
 * once.
 */
const struct dwarf_answer *symbol_index_find(
	struct symbol_index *index, const uint64_t *vaddrs, size_t count, unsigned threads);

/* Whether a block that was needed is damaged: then answers are missing. */
bool symbol_index_is_damaged(const struct symbol_index *index);

struct symbol_extent {
	uint64_t start, limit;
};

/*
 * The pieces of code that are of one function each, inlined calls included, ascending. Equal
 * functions side by side are one piece. In place of symbol_index_find; NULL when the index is
 * damaged. Free with free().
 */
struct symbol_extent *symbol_index_functions(struct symbol_index *index, size_t *count);
