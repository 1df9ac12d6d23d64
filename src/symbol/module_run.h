/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a module in one run: module_begin with the addresses, module_locate finds and checks
 * the files and reads the symbol tables, module_run_job (for each job, on any thread) reads DWARF,
 * module_finish puts the frames together and releases the files. Different modules may be worked
 * on by different threads; the jobs of one module too.
 */
#pragma once

#include "symbol/module.h"

/* Starts a run: the queries were added and sorted. `mappings` must live until module_finish. */
void module_begin(
	struct symbol_module *module, const struct symbol_mapping *mappings, size_t mapping_count);

/* Finds, checks and opens the files, reads symbol tables, plans the jobs. */
void module_locate(struct symbol_module *module);
size_t module_job_count(const struct symbol_module *module);
uint64_t module_job_bytes(
	const struct symbol_module *module, size_t job); /* to put big ones first */
void module_run_job(struct symbol_module *module, size_t job);

/* Whether it would help to know the Debian package; module_explain may be told its name. */
bool module_wants_package(const struct symbol_module *module);

/* Puts what is missing, and the hint, into the report. */
void module_explain(struct symbol_module *module, const char *package);
void module_finish(struct symbol_module *module);
