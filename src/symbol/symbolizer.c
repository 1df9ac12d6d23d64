/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbolizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash_index.h"
#include "base/xalloc.h"
#include "symbol/symbol_cache.h"
#include "symbol/file_search.h"
#include "symbol/debuginfod.h"
#include "symbol/symbol_table.h"
#include "symbol/module.h"
#include "symbol/work.h"

struct symbolizer {
	struct symbolizer_options options;
	char *cache_dir;		/* the one in options; the caller's may not live as long */
	struct debuginfod *debuginfod;	/* NULL when not allowed */
	struct symbol_module **modules; /* in the order of first use */
	size_t module_count, module_capacity;
	struct hash_index index;	      /* of the modules */
	struct symbol_module_report *reports; /* of the modules, as of the last run */
	size_t report_capacity;
};

/* A queried address, with its module and result. */
struct asked {
	uint64_t address;
	size_t position; /* in the caller's array */
	const struct symbol_mapping
		*mapping; /* that the caller says; NULL: the one that covers it */
	struct symbol_module *module;
	size_t query; /* in the module's array */
};

struct module_job {
	struct symbol_module *module;
	size_t index;
	uint64_t bytes;
};

struct symbolizer_run {
	uint64_t *run_limits;		/* of the mappings: see mapping_runs_find */
	struct symbol_module **modules; /* those with queries */
	size_t module_count;
	char **packages; /* of the modules, NULL where unknown or of no use */
	struct module_job *jobs;
	size_t job_count;
};

struct symbolizer *symbolizer_new(const struct symbolizer_options *options)
{
	struct symbolizer *const symbolizer = xcalloc(1, sizeof *symbolizer);

	symbolizer->options = *options;
	hash_index_init(&symbolizer->index);
	if (options->debuginfod_urls != NULL)
		symbolizer->debuginfod =
			debuginfod_new(options->debuginfod_urls, options->debuginfod_timeout_ms);
	if (options->cache_dir != NULL && symbol_cache_prepare(options->cache_dir))
		symbolizer->cache_dir = xstrdup(options->cache_dir);
	symbolizer->options.cache_dir = symbolizer->cache_dir;
	return symbolizer;
}

void symbolizer_free(struct symbolizer *symbolizer)
{
	if (symbolizer == NULL)
		return;
	for (size_t i = 0; i < symbolizer->module_count; i++)
		module_free(symbolizer->modules[i]);
	free(symbolizer->modules);
	hash_index_deinit(&symbolizer->index);
	free(symbolizer->reports);
	debuginfod_free(symbolizer->debuginfod);
	free(symbolizer->cache_dir);
	free(symbolizer);
}

static int compare_mappings(const void *a, const void *b)
{
	const uint64_t left = ((const struct symbol_mapping *)a)->start;
	const uint64_t right = ((const struct symbol_mapping *)b)->start;

	return left < right ? -1 : left > right;
}

static int compare_asked(const void *a, const void *b)
{
	const struct asked *const left = a;
	const struct asked *const right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->position < right->position ? -1 : left->position > right->position;
}

static bool is_owner(const void *modules, uint32_t position, const void *mapping)
{
	return module_owns(((struct symbol_module *const *)modules)[position], mapping);
}

static struct symbol_module *find_module(
	struct symbolizer *symbolizer, const struct symbol_mapping *mapping, pid_t pid)
{
	const struct symbol_mapping nothing = { .path = "", .build_id = "", .pid = pid };
	const struct symbol_mapping *const wanted = mapping == NULL ? &nothing : mapping;

	const uint64_t hash = hash_combine(hash_bytes(wanted->path, strlen(wanted->path)),
		hash_bytes(wanted->build_id, strlen(wanted->build_id)));
	const uint32_t found = hash_index_add(&symbolizer->index, hash, is_owner,
		symbolizer->modules, wanted, (uint32_t)symbolizer->module_count);
	if (found != HASH_INDEX_NONE)
		return symbolizer->modules[found];
	symbolizer->modules = xgrow(symbolizer->modules, &symbolizer->module_capacity,
		symbolizer->module_count + 1, sizeof(struct symbol_module *));
	struct symbol_module *const module = module_new(&symbolizer->options, wanted);
	module->debuginfod = symbolizer->debuginfod;
	symbolizer->modules[symbolizer->module_count++] = module;
	return module;
}

static size_t add_query(
	struct symbol_module *module, uint64_t address, const struct symbol_mapping *mapping)
{
	const struct module_query *const last =
		module->query_count == 0 ? NULL : &module->queries[module->query_count - 1];

	/* Addresses come sorted, so an equal one is the last. */
	if (last != NULL && last->address == address && last->mapping == mapping)
		return module->query_count - 1;
	module->queries = xgrow(module->queries, &module->query_capacity, module->query_count + 1,
		sizeof *module->queries);
	module->queries[module->query_count] = (struct module_query){
		.address = address,
		.file_offset =
			mapping == NULL ? address : address - mapping->start + mapping->file_offset,
		.mapping = mapping,
		.into_function = FUNCTION_START_UNKNOWN,
	};
	return module->query_count++;
}

/* Gives every address to its mapping's module, or else to the one that is mapped there. */
static void hand_out(struct symbolizer *symbolizer, const struct symbol_mapping *mappings,
	size_t mapping_count, struct asked *asked, size_t count)
{
	size_t at = 0;
	const struct symbol_mapping *last = NULL;
	struct symbol_module *module = NULL;
	/* Memory that was not mapped when the mappings were read belongs to the process, too. */
	const pid_t pid = mapping_count == 0 ? 0 : mappings[0].pid;

	for (size_t i = 0; i < symbolizer->module_count; i++)
		symbolizer->modules[i]->query_count = 0;
	for (size_t i = 0; i < count; i++) {
		while (at < mapping_count && mappings[at].limit <= asked[i].address)
			at++;
		const struct symbol_mapping *mapping = asked[i].mapping;
		if (mapping == NULL && at < mapping_count && mappings[at].start <= asked[i].address)
			mapping = &mappings[at];
		if (module == NULL || mapping != last)
			module = find_module(symbolizer, mapping, pid);
		last = mapping;
		asked[i].module = module;
		asked[i].query = add_query(module, asked[i].address, mapping);
	}
}

static void locate(void *context, size_t index)
{
	module_locate(((struct symbolizer_run *)context)->modules[index]);
}

/* Which Debian packages the modules without debug information came from: one read for all. */
static void find_packages(struct symbolizer_run *run)
{
	CLEANUP(free_cleanup) const char **paths = xcalloc(run->module_count, sizeof *paths);
	CLEANUP(free_cleanup) char **packages = xcalloc(run->module_count, sizeof *packages);
	size_t count = 0;

	run->packages = xcalloc(run->module_count, sizeof *run->packages);
	for (size_t i = 0; i < run->module_count; i++)
		if (module_wants_package(run->modules[i]))
			paths[count++] = run->modules[i]->path;
	debian_package_find(paths, count, packages);
	for (size_t i = 0, at = 0; i < run->module_count; i++)
		if (module_wants_package(run->modules[i]))
			run->packages[i] = packages[at++];
}

/* The first piece is the search for packages, which takes about as long as a big unit. */
static void run_job(void *context, size_t index)
{
	struct symbolizer_run *const run = context;

	if (index == 0) {
		find_packages(run);
		return;
	}
	const struct module_job *const job = &run->jobs[index - 1];
	module_run_job(job->module, job->index);
}

static void finish(void *context, size_t index)
{
	struct symbolizer_run *const run = context;

	module_explain(run->modules[index], run->packages[index]);
	module_finish(run->modules[index]);
	free(run->packages[index]);
}

static int compare_jobs(const void *a, const void *b)
{
	const uint64_t left = ((const struct module_job *)a)->bytes;
	const uint64_t right = ((const struct module_job *)b)->bytes;

	return left > right ? -1 : left < right;
}

static void collect_jobs(struct symbolizer_run *run)
{
	for (size_t i = 0; i < run->module_count; i++)
		run->job_count += module_job_count(run->modules[i]);
	run->jobs = xcalloc(run->job_count, sizeof *run->jobs);
	size_t at = 0;
	for (size_t i = 0; i < run->module_count; i++) {
		const size_t count = module_job_count(run->modules[i]);
		for (size_t j = 0; j < count; j++)
			run->jobs[at++] = (struct module_job){ .module = run->modules[i],
				.index = j,
				.bytes = module_job_bytes(run->modules[i], j) };
	}
	qsort(run->jobs, run->job_count, sizeof *run->jobs, compare_jobs);
}

static void run_modules(
	struct symbolizer *symbolizer, const struct symbol_mapping *mappings, size_t mapping_count)
{
	const unsigned threads = symbolizer->options.threads;
	struct symbolizer_run run = {
		.run_limits = xcalloc(mapping_count, sizeof *run.run_limits),
		.modules = xcalloc(symbolizer->module_count, sizeof(struct symbol_module *)),
	};

	const uint64_t page_limit = mapping_page_limit(mappings, mapping_count);
	mapping_runs_find(mappings, mapping_count, run.run_limits);
	for (size_t i = 0; i < symbolizer->module_count; i++) {
		struct symbol_module *const module = symbolizer->modules[i];
		if (module->query_count == 0)
			continue;
		module_begin(module, mappings, mapping_count, run.run_limits, page_limit);
		run.modules[run.module_count++] = module;
	}
	parallel_run(run.module_count, threads, locate, &run);
	collect_jobs(&run);
	/* With a warm cache no unit is left to read: a thread would cost more than it does. */
	if (run.job_count == 0)
		find_packages(&run);
	else
		parallel_run(run.job_count + 1, threads, run_job, &run);
	parallel_run(run.module_count, threads, finish, &run);
	free(run.jobs);
	free(run.packages);
	free(run.run_limits);
	free(run.modules);
}

static void collect_reports(struct symbolizer *symbolizer)
{
	symbolizer->reports = xgrow(symbolizer->reports, &symbolizer->report_capacity,
		symbolizer->module_count, sizeof *symbolizer->reports);
	for (size_t i = 0; i < symbolizer->module_count; i++)
		symbolizer->reports[i] = symbolizer->modules[i]->report;
}

static struct symbol_result result_of(
	const struct symbolizer *symbolizer, const struct module_query *query)
{
	struct symbol_result result = { query->frames, query->frame_count, 0 };

	if (query->into_function != FUNCTION_START_UNKNOWN)
		result.function_start = query->address - query->into_function;

	if (symbolizer->options.no_inlines && result.frame_count > 1) {
		result.frames += result.frame_count - 1;
		result.frame_count = 1;
	}
	return result;
}

/* The mapping that the caller names for an address, if it covers it. */
static const struct symbol_mapping *owner_of(const struct symbol_mapping *mappings,
	size_t mapping_count, const uint32_t *owners, size_t position, uint64_t address)
{
	if (owners == NULL || owners[position] >= mapping_count)
		return NULL;
	const struct symbol_mapping *const owner = &mappings[owners[position]];
	return owner->start <= address && address < owner->limit ? owner : NULL;
}

void symbolizer_resolve(struct symbolizer *symbolizer, const struct symbol_mapping *mappings,
	size_t mapping_count, const uint64_t *addresses, const uint32_t *owners, size_t count,
	struct symbol_result *results)
{
	CLEANUP(free_cleanup) struct asked *asked = xcalloc(count, sizeof *asked);
	CLEANUP(free_cleanup)
	struct symbol_mapping *sorted = xcalloc(mapping_count, sizeof *sorted);

	if (mapping_count != 0)
		memcpy(sorted, mappings, mapping_count * sizeof *sorted);
	qsort(sorted, mapping_count, sizeof *sorted, compare_mappings);
	for (size_t i = 0; i < count; i++)
		asked[i] = (struct asked){ .address = addresses[i],
			.position = i,
			.mapping = owner_of(mappings, mapping_count, owners, i, addresses[i]) };
	qsort(asked, count, sizeof *asked, compare_asked);
	hand_out(symbolizer, sorted, mapping_count, asked, count);
	run_modules(symbolizer, sorted, mapping_count);
	collect_reports(symbolizer);
	for (size_t i = 0; i < count; i++)
		results[asked[i].position] =
			result_of(symbolizer, &asked[i].module->queries[asked[i].query]);
}

const struct symbol_module_report *symbolizer_reports(
	const struct symbolizer *symbolizer, size_t *count)
{
	*count = symbolizer->module_count;
	return symbolizer->reports;
}

bool symbolizer_fetch_source(struct symbolizer *symbolizer, const char *build_id,
	const char *source, struct buffer *path, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer problem = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer hint = BUFFER_OR_EXIT;

	if (symbolizer->debuginfod == NULL)
		return error_set(err, ERROR_NOT_FOUND, "no debuginfod server is allowed");
	if (debuginfod_fetch_source(
		    symbolizer->debuginfod, build_id, source, path, &problem, &hint))
		return true;
	if (problem.size == 0)
		error_set(err, ERROR_NOT_FOUND, "the debuginfod servers do not have it");
	else
		error_set(err, ERROR_SYSTEM, "%s", buffer_string(&problem));
	return hint.size != 0 && error_hint(err, "%s", buffer_string(&hint));
}
