/* SPDX-License-Identifier: Apache-2.0 */
/* One mapped file of the profiled process, and what its addresses are called; filled by
 * module_run.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/string_pool.h"
#include "symbol/dwarf.h"
#include "symbol/elf_image.h"
#include "symbol/file_search.h"
#include "symbol/symbol.h"
#include "symbol/symbol_cache.h"
#include "symbol/symbol_table.h"

struct debuginfod;

/* A distinct address that was asked for. */
struct module_query {
	uint64_t address;
	uint64_t file_offset;
	const struct symbol_mapping *mapping; /* that covers it; NULL when none does */
	const struct symbol_frame *frames;    /* innermost first; live as long as the module */
	size_t frame_count;
	uint32_t into_function; /* bytes; FUNCTION_START_UNKNOWN where it has a name, too */
	bool is_answered;	/* by the cache */
};

/* What the steps of a run hand to each other. */
struct module_work {
	struct file_search search;
	struct elf_image image; /* these three are empty when there is none */
	struct elf_image debug;
	struct elf_image mini; /* the one inside .gnu_debugdata */
	struct dwarf_reader *dwarf;
	/* The queries that have a vaddr, sorted by it. */
	uint64_t *vaddrs;
	struct module_query **queries;
	struct symbol_match *matches;
	bool *is_function; /* a symbol holds it, or there are no symbols to tell */
	size_t count;
};

struct symbol_module {
	const struct symbolizer_options *options;
	struct debuginfod *debuginfod; /* borrowed; NULL when not allowed */
	const char *path;	       /* these five as in the mappings; kept in strings */
	const char *build_id;
	const char *file; /* NULL: find it */
	pid_t pid;
	bool deleted;
	struct symbol_module_report report;
	struct string_pool strings;
	struct arena arena;
	char **texts; /* of demangled names */
	size_t text_count, text_capacity;
	struct symbol_cache **caches; /* what answers of earlier runs point into */
	size_t cache_count, cache_capacity;

	/* Of the current run. */
	const struct symbol_mapping *mappings; /* all of the process, sorted by start */
	size_t mapping_count;
	struct module_query *queries; /* sorted by file offset, then address */
	size_t query_count, query_capacity;
	struct module_work *work;
	const char *subject;		/* of the cache; NULL when nothing is to be kept */
	const char *candidate_path;	/* the file that the subject names, */
	struct file_identity candidate; /* and what it was; all zero for none */
	uint64_t options_hash;
	const struct symbol_cache *cache; /* that holds for this run; NULL for none */
};

struct symbol_module *module_new(
	const struct symbolizer_options *options, const struct symbol_mapping *mapping);
void module_free(struct symbol_module *module);

/* Whether the mapping belongs to this module. */
bool module_owns(const struct symbol_module *module, const struct symbol_mapping *mapping);

/* The module's own copy of a text. */
static inline const char *module_keep(struct symbol_module *module, const char *text)
{
	return string_pool_add(&module->strings, text);
}
