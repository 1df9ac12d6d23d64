/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash_index.h"
#include "base/xalloc.h"
#include "symbol/symbol_cache.h"

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return text == NULL ? hash_fixed_combine(hash, 1)
			    : hash_fixed_combine(hash, hash_fixed_bytes(text, strlen(text)));
}

/* Of the options that change which files are found. */
static uint64_t hash_options(const struct symbolizer_options *options)
{
	uint64_t hash = hash_text(0, options->sysroot);

	for (size_t i = 0; i < options->build_id_dir_count; i++)
		hash = hash_text(hash, options->build_id_dirs[i]);
	return hash_text(hash, options->debuginfod_urls);
}

/* The file that the search will look at first, without opening it. */
static struct file_identity first_candidate(const struct symbol_module *module, struct buffer *path)
{
	const struct file_search *const search = &module->work->search;
	struct file_identity identity = { 0 };

	buffer_clear(path);
	if (module->file != NULL) {
		buffer_append_string(path, module->file);
		return file_search_identify(search, module->file);
	}
	if (module->pid > 0 && module->queries[0].mapping != NULL) {
		buffer_printf(path, "/proc/%d/map_files/%llx-%llx", (int)module->pid,
			(unsigned long long)module->queries[0].mapping->start,
			(unsigned long long)module->queries[0].mapping->limit);
		identity = file_search_identify(search, buffer_string(path));
		if (identity.inode != 0)
			return identity;
	}
	for (unsigned which = 0;
		identity.inode == 0 && module->path[0] == '/' && !module->deleted &&
		file_search_place(search, module->path, which, path);
		which++)
		identity = file_search_identify(search, buffer_string(path));
	return identity;
}

/* What the cache file is about; NULL when there is nothing that identifies the module. */
static const char *find_subject(struct symbol_module *module)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;

	const struct file_identity identity = first_candidate(module, &path);
	module->candidate = identity;
	module->candidate_path = string_pool_add(&module->strings, buffer_string(&path));
	if (identity.inode == 0 && module->build_id[0] == '\0')
		return NULL;
	/* The same file is reached by different paths: through a process, or after it ended. */
	buffer_printf(&text, "%s %s%s file %llu %llu %llu %llu %llu", module->path,
		module->build_id, module->deleted ? " deleted" : "",
		(unsigned long long)identity.device, (unsigned long long)identity.inode,
		(unsigned long long)identity.size, (unsigned long long)identity.modified_ns,
		(unsigned long long)identity.changed_ns);
	return string_pool_add(&module->strings, buffer_string(&text));
}

/*
 * A process is gone tomorrow, and another one of the same program has another number: paths below
 * its root are kept with a mark instead of that, or as ours when its root is.
 */
static const char root_mark[] = "/proc/*/root";

static bool is_root_shared(pid_t pid)
{
	char path[32];
	struct stat ours;
	struct stat its;

	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	return stat("/", &ours) == 0 && stat(path, &its) == 0 && ours.st_dev == its.st_dev &&
	       ours.st_ino == its.st_ino;
}

/* The paths as they are kept; the others are the search's. `kept` has room for all. */
static size_t keep_probes(
	struct symbol_module *module, const struct file_search *search, struct file_probe *kept)
{
	CLEANUP(free_cleanup) char *root = xasprintf("/proc/%d/root/", (int)module->pid);
	CLEANUP(free_cleanup) char *mapped = xasprintf("/proc/%d/map_files/", (int)module->pid);
	const char *const mark = module->pid > 0 && is_root_shared(module->pid) ? "" : root_mark;
	const size_t root_size = strlen(root) - 1;
	size_t count = 0;

	for (size_t i = 0; i < search->probe_count; i++) {
		const char *path = search->probes[i].path;
		/* The subject says what was mapped. */
		if (module->pid > 0 && strncmp(path, mapped, strlen(mapped)) == 0)
			continue;
		if (module->pid > 0 && strncmp(path, root, root_size + 1) == 0) {
			CLEANUP(free_cleanup)
			char *marked = xasprintf("%s%s", mark, path + root_size);
			path = string_pool_add(&module->strings, marked);
		}
		kept[count++] =
			(struct file_probe){ (char *)(uintptr_t)path, search->probes[i].identity };
	}
	return count;
}

static bool has_same_files(
	const struct symbol_module *module, const struct symbol_cache_entry *entry)
{
	const size_t mark_size = sizeof root_mark - 1;

	for (size_t i = 0; i < entry->probe_count; i++) {
		const char *const path = entry->probes[i].path;
		const bool is_inside = strncmp(path, root_mark, mark_size) == 0;
		if (is_inside && module->pid <= 0)
			return false;
		CLEANUP(free_cleanup)
		char *inside =
			is_inside ? xasprintf("/proc/%d/root%s", (int)module->pid, path + mark_size)
				  : NULL;
		const struct file_identity now =
			file_search_identify(&module->work->search, is_inside ? inside : path);
		if (!file_identity_equal(&now, &entry->probes[i].identity))
			return false;
	}
	return true;
}

static bool is_still_valid(
	const struct symbol_module *module, const struct symbol_cache_entry *entry)
{
	CLEANUP(buffer_deinit) struct buffer problem = BUFFER_OR_EXIT;
	const struct module_layout layout = { entry->segments, entry->segment_count };

	if (entry->options_hash != module->options_hash || !has_same_files(module, entry))
		return false;
	return module->build_id[0] != '\0' || entry->segment_count == 0 ||
	       module_layout_fits(module, &layout, &problem);
}

/*
 * Whether the answers rest on what the subject names. The search opened files after the subject was
 * made; another user may have replaced the candidate in between.
 */
static bool is_of_subject(const struct symbol_module *module, const struct file_search *search)
{
	if (search->is_unsteady)
		return false;
	if (module->candidate.inode == 0)
		return true;
	for (size_t i = 0; i < search->probe_count; i++) {
		const struct file_probe *const probe = &search->probes[i];
		if (strcmp(probe->path, module->candidate_path) == 0)
			return file_identity_equal(&probe->identity, &module->candidate);
	}
	/* It was read by another path than the kernel's link to what is mapped. */
	const struct file_probe *const first = search->probe_count == 0 ? NULL : &search->probes[0];
	return first != NULL && file_identity_equal(&first->identity, &module->candidate);
}

static bool take_answers(struct symbol_module *module, const struct symbol_cache *cache)
{
	size_t answered = 0;

	for (size_t i = 0; i < module->query_count; i++) {
		struct module_query *const query = &module->queries[i];
		const struct symbol_cache_answer *const answer =
			symbol_cache_find(cache, query->file_offset);
		if (answer == NULL)
			continue;
		query->frames = answer->frames;
		query->frame_count = answer->frame_count;
		query->into_function = answer->into_function;
		query->is_answered = true;
		answered++;
	}
	return answered == module->query_count;
}

static void take_report(struct symbol_module *module, const struct symbol_module_report *from)
{
	struct symbol_module_report *const report = &module->report;

	report->file = from->file;
	report->debug_file = from->debug_file;
	report->build_id = from->build_id;
	report->source = from->source;
	report->problem = from->problem;
	report->hint = from->hint;
	report->from_cache = true;
}

bool module_cache_load(struct symbol_module *module)
{
	struct symbol_cache cache;

	module->cache = NULL;
	module->subject = NULL;
	if (module->options->cache_dir == NULL || module->query_count == 0)
		return false;
	module->options_hash = hash_options(module->options);
	module->subject = find_subject(module);
	if (module->subject == NULL ||
		!symbol_cache_read(module->options->cache_dir, module->subject, &cache))
		return false;
	if (!is_still_valid(module, &cache.entry)) {
		symbol_cache_deinit(&cache);
		return false;
	}
	struct symbol_cache *const kept = xmalloc(sizeof *kept);
	*kept = cache;
	module->caches = xgrow(module->caches, &module->cache_capacity, module->cache_count + 1,
		sizeof(struct symbol_cache *));
	module->caches[module->cache_count++] = kept;
	module->cache = kept;
	if (!take_answers(module, kept))
		return false;
	take_report(module, &kept->entry.report);
	return true;
}

static int compare_answers(const void *a, const void *b)
{
	const uint64_t left = ((const struct symbol_cache_answer *)a)->file_offset;
	const uint64_t right = ((const struct symbol_cache_answer *)b)->file_offset;

	return left < right ? -1 : left > right;
}

/* The answers of this run and of `old`, which may be NULL, sorted and each once. */
static struct symbol_cache_answer *merge_answers(
	const struct symbol_module *module, const struct symbol_cache *old, size_t *count)
{
	const size_t old_count = old == NULL ? 0 : old->entry.answer_count;
	struct symbol_cache_answer *const answers =
		xcalloc(old_count + module->query_count, sizeof *answers);
	size_t used = old_count;

	if (old_count != 0)
		memcpy(answers, old->entry.answers, old_count * sizeof *answers);
	for (size_t i = 0; i < module->query_count; i++) {
		const struct module_query *const query = &module->queries[i];
		if (old == NULL || !query->is_answered)
			answers[used++] = (struct symbol_cache_answer){ query->file_offset,
				query->frames, query->frame_count, query->into_function };
	}
	qsort(answers, used, sizeof *answers, compare_answers);
	*count = 0;
	for (size_t i = 0; i < used; i++)
		if (*count == 0 || answers[*count - 1].file_offset != answers[i].file_offset)
			answers[(*count)++] = answers[i];
	return answers;
}

void module_cache_store(struct symbol_module *module, const struct elf_image *image,
	const struct file_search *search)
{
	if (module->subject == NULL || !is_of_subject(module, search))
		return;
	CLEANUP(free_cleanup)
	struct file_probe *probes = xcalloc(search->probe_count, sizeof *probes);
	struct symbol_cache_entry entry = {
		.subject = module->subject,
		.options_hash = module->options_hash,
		.report = module->report,
		.probes = probes,
		.probe_count = keep_probes(module, search, probes),
		.segments = image->segments,
		.segment_count = image->has_code ? image->segment_count : 0,
	};
	/* When all of it has become too much, the addresses of this run are the ones to keep. */
	const struct symbol_cache *const olds[] = { module->cache, NULL };
	for (size_t i = 0; i < sizeof olds / sizeof *olds; i++) {
		CLEANUP(free_cleanup)
		struct symbol_cache_answer *answers =
			merge_answers(module, olds[i], &entry.answer_count);
		entry.answers = answers;
		if (symbol_cache_write(module->options->cache_dir, &entry))
			return;
	}
}
