/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mapped file of the profiled process, and the frames of its addresses.
 *
 * The files of a module are the one that was mapped, or its debug file when nothing else is left.
 * A file with the right name and other contents would give wrong names, so it is refused: by its
 * build-id where the profile has one, else because its segments cannot have been mapped the way the
 * profile says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/xalloc.h"
#include "base/buffer.h"
#include "base/string_pool.h"
#include "symbol/dwarf.h"
#include "symbol/elf_image.h"
#include "symbol/file_search.h"
#include "symbol/symbol.h"
#include "symbol/symbol_cache.h"
#include "symbol/symbol_index.h"
#include "symbol/symbol_table.h"

struct debuginfod;

/* A distinct address to look up. */
struct module_query {
	uint64_t address;
	uint64_t file_offset;
	const struct symbol_mapping *mapping; /* that covers it; NULL when none does */
	const struct symbol_frame *frames;    /* innermost first; live as long as the module */
	size_t frame_count;
	uint32_t into_function; /* bytes; FUNCTION_START_UNKNOWN where it has a name, too */
	bool is_answered;	/* by the cache */
};

/* State shared by the steps of a run. */
struct module_work {
	struct file_search search;
	struct elf_image image; /* these four are empty when there is none */
	struct elf_image debug;
	struct elf_image other_debug; /* with DWARF, where that of `debug` is damaged */
	struct elf_image mini;	      /* the one inside .gnu_debugdata */
	struct dwarf_reader *dwarf;
	bool has_damaged_split;
	struct symbol_index *index;   /* then there is no `dwarf`; answers are missing if damaged */
	struct elf_image index_image; /* empty where the index is `image` */
	const struct dwarf_answer *index_answers;
	/* The queries that have a vaddr, sorted by it. */
	uint64_t *vaddrs;
	struct module_query **queries;
	struct symbol_match *matches;
	bool *is_function; /* a symbol contains it, or there are no symbols */
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
	const uint64_t *run_limits; /* see mapping_runs_find */
	uint64_t page_limit;	    /* see mapping_page_limit */
	uint64_t *bases;	    /* where mappings of the file's beginning start, ascending */
	size_t base_count, base_capacity;
	struct module_query *queries; /* sorted by file offset, then address */
	size_t query_count, query_capacity;
	struct module_work *work;
	const char *subject;		/* of the cache; NULL when nothing is cached */
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

/* The segments of a file, to compare with a process' mappings; the cache has them, too. */
struct module_layout {
	struct elf_segment *segments; /* borrowed */
	size_t segment_count;
};

/*
 * Opens the mapped file. False when none fits: then `problem` and `hint` say why, and what to do.
 */
MUST_CHECK bool module_file_open(const struct symbol_module *module, struct file_search *search,
	struct elf_image *image, struct buffer *problem, struct buffer *hint);

/* Whether the mapping is one of the segments, or the part of one that the process did not remap. */
bool module_mapping_fits(const struct symbol_module *module, const struct symbol_mapping *mapping,
	const struct module_layout *layout);

/*
 * Whether the module was mapped from a file that has these segments: at least one of the mappings
 * with addresses to look up is one of its code. Others may not fit: a process can map its own file
 * once more.
 */
bool module_layout_fits(const struct symbol_module *module, const struct module_layout *layout,
	struct buffer *problem);

/*
 * How far memory is mapped without a hole from each mapping on: run_limits[i] is where the mappings
 * that follow mappings[i] end.
 */
void mapping_runs_find(
	const struct symbol_mapping *mappings, size_t mapping_count, uint64_t *run_limits);

/*
 * The largest page of 4, 16 or 64 KiB that the mappings can be made of. Larger ones than the
 * process had would let code fit that is up to 15 pages away.
 */
uint64_t mapping_page_limit(const struct symbol_mapping *mappings, size_t mapping_count);

/* For module_translate with a debug file. */
void module_find_bases(struct symbol_module *module);

/*
 * The vaddr of a query; false when it lies in no segment. A debug file's segments do not say
 * where in the program's file they are, so there the mapping of the file's beginning decides, or
 * that of the query by its size.
 */
bool module_translate(const struct symbol_module *module, const struct elf_image *image,
	const struct module_query *query, uint64_t *vaddr);

/*
 * The cache of a module's answers (module_cache.c). An answer of an earlier run is used when a
 * search for files would find the same files as then: the same inodes, with contents that were not
 * changed since, also for a module whose build-id is known. The mapped file's segments are cached
 * too, so that a profile of another file at the same path is refused without opening it.
 */

/* Answers the queries that the cache can, and sets the report. True when those were all. */
bool module_cache_load(struct symbol_module *module);

/* Stores the answers of this run beside the earlier ones. */
void module_cache_store(struct symbol_module *module, const struct elf_image *image,
	const struct file_search *search);

/*
 * One run of a module (module_run.c): module_begin with the addresses, module_locate finds and
 * checks the files and reads the symbol tables, module_run_job (for each job, on any thread) reads
 * DWARF, module_finish builds the frames and releases the files. Different modules may be worked on
 * by different threads; the jobs of one module too.
 */

/*
 * Starts a run: the queries were added and sorted. `mappings`, and their `run_limits`, must live
 * until module_finish.
 */
void module_begin(struct symbol_module *module, const struct symbol_mapping *mappings,
	size_t mapping_count, const uint64_t *run_limits, uint64_t page_limit);

/* Finds, checks and opens the files, reads symbol tables, plans the jobs. */
void module_locate(struct symbol_module *module);
size_t module_job_count(const struct symbol_module *module);
uint64_t module_job_bytes(
	const struct symbol_module *module, size_t job); /* to put big ones first */
void module_run_job(struct symbol_module *module, size_t job);

/* Whether the name of the Debian package would help; module_explain takes it. */
bool module_wants_package(const struct symbol_module *module);

/* Puts what is missing, and the hint, into the report. */
void module_explain(struct symbol_module *module, const char *package);
void module_finish(struct symbol_module *module);
