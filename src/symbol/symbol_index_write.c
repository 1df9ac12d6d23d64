/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_index_write.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/xalloc.h"
#include "symbol/boundaries.h"
#include "symbol/dwarf.h"
#include "symbol/file_search.h"
#include "symbol/symbol_index.h"
#include "symbol/symbol_index_encode.h"
#include "symbol/symbol_table.h"
#include "symbol/work.h"

/* What an index is made from, and of. */
struct making {
	struct file_search search;
	struct elf_image image;
	struct elf_image debug;
	struct elf_image mini;
	struct dwarf_reader *dwarf;
	struct boundaries boundaries;
	struct symbol_match *matches; /* of each boundary */
	bool *is_function;
	uint32_t *chain_of; /* of each boundary */
	pthread_mutex_t lock;
	pthread_cond_t turn;
	size_t next_job; /* whose answers are added next: an index has the same bytes each time */
	struct symbol_chains chains;
};

void symbol_index_summary_deinit(struct symbol_index_summary *summary)
{
	free(summary->debug_file);
	*summary = (struct symbol_index_summary){ 0 };
}

/* NULL where the index may be written over what the image has. */
static const char *reason_to_keep(const struct elf_image *image, enum symbol_source source)
{
	CLEANUP(symbol_index_cleanup) struct symbol_index *index = NULL;
	struct work_budget budget;
	struct error ignored;

	work_budget_init(&budget);
	if (!symbol_index_exists(image))
		return "is no index of symbols";
	if (!symbol_index_open(image, &budget, &index, &ignored))
		return NULL;
	return symbol_index_source(index) > source
		       ? "was made with the debug information, which this one lacks"
		       : NULL;
}

bool symbol_index_may_replace(
	const char *path, bool is_in_cache, enum symbol_source source, struct error *err)
{
	struct elf_image image;
	struct error ignored;
	struct stat status;

	/* A device, a pipe and an empty file lose nothing. */
	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
		return true;
	const bool is_elf = elf_image_open(path, &image, &ignored);
	const char *reason = NULL;
	if (is_elf)
		reason = reason_to_keep(&image, source);
	else if (!is_in_cache)
		reason = "is no index of symbols";
	if (is_elf)
		elf_image_close(&image);
	if (reason == NULL)
		return true;
	error_set(err, ERROR_STATE, "%s exists, and %s", path, reason);
	return error_hint(err, "write elsewhere, or remove it");
}

static void making_init(struct making *making, const struct symbolizer_options *options)
{
	*making = (struct making){ 0 };
	file_search_init(&making->search, options, 0);
	making->search.skips_indexes = true;
	making->search.debug_source = symbol_index_debug_source;
	pthread_mutex_init(&making->lock, NULL);
	pthread_cond_init(&making->turn, NULL);
	symbol_chains_init(&making->chains, &making->search.budget);
}

static void making_deinit(struct making *making)
{
	dwarf_reader_free(making->dwarf);
	elf_image_close(&making->image);
	elf_image_close(&making->debug);
	elf_image_close(&making->mini);
	boundaries_deinit(&making->boundaries);
	free(making->matches);
	free(making->is_function);
	free(making->chain_of);
	symbol_chains_deinit(&making->chains);
	pthread_cond_destroy(&making->turn);
	pthread_mutex_destroy(&making->lock);
	file_search_deinit(&making->search);
}

/* Files may not say an address outside of their code. */
static void keep_code(struct making *making)
{
	const struct elf_image *const image = &making->image;
	struct boundaries *const boundaries = &making->boundaries;
	size_t kept = 0;

	boundaries_sort(boundaries);
	for (size_t i = 0; i < boundaries->count; i++)
		if (boundaries->vaddrs[i] >= image->code_start &&
			boundaries->vaddrs[i] <= image->code_limit)
			boundaries->vaddrs[kept++] = boundaries->vaddrs[i];
	boundaries->count = kept;
}

static void add_symbol(struct making *making, size_t position)
{
	const char *const symbol = making->matches[position].name;
	const struct dwarf_frame frame = { .name = "", .linkage = symbol, .file = "" };

	if (symbol != NULL)
		making->chain_of[position] =
			symbol_chains_add(&making->chains, NO_SYMBOL_CHAIN, &frame);
}

static void add_answer(struct making *making, size_t position, const struct dwarf_answer *answer)
{
	uint32_t chain = NO_SYMBOL_CHAIN;

	for (uint32_t i = answer->frame_count; i-- > 0;) {
		const struct dwarf_frame frame =
			dwarf_frame_named(answer, i, making->matches[position].name);
		chain = symbol_chains_add(&making->chains, chain, &frame);
	}
	making->chain_of[position] = chain;
}

static void run_job(void *context, size_t job)
{
	struct making *const making = context;
	const struct dwarf_answer *const answers = dwarf_answers(making->dwarf);
	size_t count = 0;

	dwarf_run_job(making->dwarf, job);
	const uint32_t *const positions = dwarf_job_positions(making->dwarf, job, &count);
	pthread_mutex_lock(&making->lock);
	/* Jobs are started in order, so the one that is waited for is running. */
	while (making->next_job != job)
		pthread_cond_wait(&making->turn, &making->lock);
	for (size_t i = 0; i < count; i++)
		if (answers[positions[i]].frame_count != 0)
			add_answer(making, positions[i], &answers[positions[i]]);
	making->next_job++;
	pthread_cond_broadcast(&making->turn);
	pthread_mutex_unlock(&making->lock);
	dwarf_release_job(making->dwarf, job);
}

/* Finds the answer of each boundary. */
static enum symbol_source answer_all(struct making *making)
{
	const struct symbol_images images = { &making->image, &making->debug, &making->mini };
	const unsigned threads = making->search.options->threads;
	struct boundaries *const boundaries = &making->boundaries;

	if (making->dwarf != NULL)
		dwarf_boundaries(making->dwarf, threads, boundaries);
	symbol_images_boundaries(&images, boundaries);
	keep_code(making);
	const size_t count = boundaries->count;
	making->matches = xcalloc(count, sizeof *making->matches);
	making->is_function = xcalloc(count, sizeof *making->is_function);
	making->chain_of = xcalloc(count, sizeof *making->chain_of);
	work_budget_allow_addresses(&making->search.budget, count);
	enum symbol_source source =
		symbol_images_match(&images, boundaries->vaddrs, count, making->matches);
	for (size_t i = 0; i < count; i++)
		making->is_function[i] =
			source != SYMBOL_SOURCE_TABLE || making->matches[i].name != NULL;
	if (making->dwarf != NULL) {
		source = SYMBOL_SOURCE_DWARF;
		dwarf_plan(making->dwarf, boundaries->vaddrs, making->is_function, count);
		parallel_run(dwarf_job_count(making->dwarf), threads, run_job, making);
	}
	for (size_t i = 0; i < count; i++)
		if (making->chain_of[i] == NO_SYMBOL_CHAIN)
			add_symbol(making, i);
	return source;
}

static const char *build_id_hint(const struct elf_image *image)
{
	if (elf_image_section(image, ".debug_info.dwo") != NULL)
		return "give the program that it belongs to";
	/* Go's own linker writes none before Go 1.24, and its user types no option of ld. */
	if (elf_image_section(image, ".go.buildinfo") != NULL)
		return "build it with go build -ldflags=\"-B 0x$(openssl rand -hex 20)\", or with "
		       "Go 1.24 or later";
	return "link it with -Wl,--build-id";
}

/* Opens the file, and its debug file where it has one. */
static bool open_files(struct making *making, const char *path, struct error *err)
{
	struct stat status;
	bool is_there = false;

	if (!file_search_open(&making->search, path, &making->image, &is_there, err))
		return is_there || stat(path, &status) != 0 || S_ISREG(status.st_mode)
			       ? false
			       : error_set(err, ERROR_INPUT, "%s: not a regular file", path);
	if (making->image.build_id[0] == '\0') {
		error_set(err, ERROR_INPUT, "%s: it has no build-id to find its index by", path);
		return error_hint(err, "%s", build_id_hint(&making->image));
	}
	if (making->image.has_code)
		(void)!file_search_debug(&making->search, &making->image, &making->debug);
	symbol_images_open_mini(&making->image, &making->mini);
	const struct elf_image *const image =
		dwarf_exists(&making->image) ? &making->image : &making->debug;
	if (!dwarf_exists(image))
		return true;
	return dwarf_reader_new(image, &making->search, making->image.path, &making->dwarf, err) ||
	       dwarf_hint(err);
}

/* Part of the information would make an index that says less than the files. */
static bool check_complete(const struct making *making, const char *path, struct error *err)
{
	const char *const split = making->dwarf == NULL ? NULL : dwarf_split_problem(making->dwarf);
	const char *const alternate =
		making->dwarf == NULL ? NULL : dwarf_alternate_problem(making->dwarf);
	CLEANUP(buffer_deinit) struct buffer damage = BUFFER_OR_EXIT;

	if (work_budget_is_spent(&making->search.budget)) {
		error_set(err, ERROR_INPUT,
			"%s: reading it needs far more work than a file of its size, so it is "
			"damaged or malicious",
			path);
		return error_hint(err, "get the file from where it was built");
	}
	if (making->dwarf != NULL && (dwarf_is_damaged(making->dwarf, &damage) ||
					     dwarf_has_damaged_split(making->dwarf, &damage))) {
		error_set(err, ERROR_INPUT, "%s", buffer_string(&damage));
		return error_hint(err, "%s", DWARF_DAMAGE_HINT);
	}
	if (split != NULL) {
		error_set(err, ERROR_NOT_FOUND, "%s: its functions are in other files: %s", path,
			split);
		return error_hint(err, "%s", DWARF_SPLIT_HINT);
	}
	if (alternate == NULL)
		return true;
	error_set(err, ERROR_NOT_FOUND, "%s: dwz moved some names to another file: %s", path,
		alternate);
	return error_hint(err, "%s", DWARF_ALTERNATE_HINT);
}

bool symbol_index_make(const char *path, const struct symbolizer_options *options,
	struct buffer *out, struct symbol_index_summary *summary, struct error *err)
{
	CLEANUP(making_deinit) struct making making = { 0 };
	struct symbol_index_summary made = { 0 };

	making_init(&making, options);
	if (!open_files(&making, path, err))
		return false;
	made.source = answer_all(&making);
	if (!check_complete(&making, path, err))
		return false;
	if (made.source < SYMBOL_SOURCE_TABLE &&
		elf_image_section(&making.image, SYMBOL_INDEX_SECTION) != NULL) {
		error_set(err, ERROR_INPUT, "%s: it is an index of symbols already", path);
		return error_hint(err, "give the program or its debug file");
	}
	if (made.source < SYMBOL_SOURCE_TABLE) {
		const bool is_refused = making.search.problem.size > 0;
		error_set(err, ERROR_INPUT, "%s: it has %s, and %s", path,
			made.source == SYMBOL_SOURCE_NONE ? "no symbols" : "exported symbols only",
			is_refused ? buffer_string(&making.search.problem)
				   : "its debug file was not found");
		return error_hint(err, "%s",
			is_refused ? buffer_string(&making.search.hint)
				   : "give the debug file, or point --build-id-dir at it");
	}
	if (making.boundaries.count == 0 && elf_image_section(&making.image, ".text") == NULL) {
		error_set(err, ERROR_INPUT,
			"%s: it describes no functions, as files that dwz made of what programs "
			"share",
			path);
		return error_hint(err, "give these programs, or their debug files");
	}
	const struct symbol_ranges ranges = { making.boundaries.vaddrs, making.chain_of,
		making.boundaries.count };
	if (!symbol_index_encode(&making.chains, &ranges, &making.image, made.source, out,
		    &made.range_count, err))
		return error_prefix(err, "%s", path);
	const struct elf_image *const source =
		making.debug.data != NULL ? &making.debug : &making.image;
	memcpy(made.build_id, making.image.build_id, sizeof made.build_id);
	made.debug_file = xstrdup(source->path);
	made.source_bytes = source->size;
	made.function_count = making.chains.function_count;
	*summary = made;
	return true;
}
