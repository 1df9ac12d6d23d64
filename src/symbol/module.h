/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One mapped file of the profiled process, and what its addresses are called.
 *
 * The life of a module in one run: module_begin with the addresses, module_locate finds and checks
 * the files and reads the symbol tables, module_run_job (for each job, on any thread) reads DWARF,
 * module_finish puts the frames together and releases the files. Different modules may be worked
 * on by different threads; the jobs of one module too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/string_pool.h"
#include "symbol/file_search.h"
#include "symbol/symbolizer.h"

struct debuginfod;
struct module_work;
struct symbol_cache;

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

struct module {
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

struct module *module_new(
	const struct symbolizer_options *options, const struct symbol_mapping *mapping);
void module_free(struct module *module);

/* Whether the mapping belongs to this module. */
bool module_owns(const struct module *module, const struct symbol_mapping *mapping);

/* Starts a run: the queries were added and sorted. `mappings` must live until module_finish. */
void module_begin(
	struct module *module, const struct symbol_mapping *mappings, size_t mapping_count);

/* Finds, checks and opens the files, reads symbol tables, plans the jobs. */
void module_locate(struct module *module);
size_t module_job_count(const struct module *module);
uint64_t module_job_bytes(const struct module *module, size_t job); /* to put big ones first */
void module_run_job(struct module *module, size_t job);

/* Whether it would help to know the Debian package; module_explain may be told its name. */
bool module_wants_package(const struct module *module);

/* Puts what is missing, and the hint, into the report. */
void module_explain(struct module *module, const char *package);
void module_finish(struct module *module);
