/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/module.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "symbol/demangle.h"
#include "symbol/symbol_table.h"
#include "symbol/elf_image.h"

/* The name of a frame while its linkage name waits to be demangled. */
struct pending_frame {
	struct symbol_frame *frame;
	uint32_t name; /* in the name table */
};

struct pending {
	struct name_table names;
	struct pending_frame *frames;
	size_t count, capacity;
	struct text_map texts; /* frames share them */
};

/*
 * Texts may overlap, so that all of them together are far longer than the file, and they are kept:
 * each byte costs memory, too.
 */
static bool spend_on_texts(struct symbol_module *module, uint64_t read_before)
{
	return module->strings.read_bytes == read_before ||
	       work_budget_spend(
		       &module->work->search.budget, module->strings.read_bytes - read_before);
}

static const char *keep(struct symbol_module *module, struct pending *pending, const char *text)
{
	const uint64_t before = module->strings.read_bytes;

	if (work_budget_is_spent(&module->work->search.budget))
		return "";
	const char *const kept = text_map_add(&pending->texts, &module->strings, text);

	return spend_on_texts(module, before) ? kept : "";
}

/*
 * A mangled name takes precedence, because it distinguishes overloads and instances; a plain one
 * ("__GI___libc_malloc") does not: the source's name says more.
 */
static void set_name(struct symbol_module *module, struct pending *pending,
	struct symbol_frame *frame, const char *linkage, const char *name)
{
	frame->function = keep(module, pending, name);
	frame->linkage_name = "";
	if (linkage[0] == '\0' || work_budget_is_spent(&module->work->search.budget))
		return;
	const uint64_t before = module->strings.read_bytes;
	*XAPPEND(pending->frames, pending->count, pending->capacity) =
		(struct pending_frame){ frame, name_table_add(&pending->names, linkage) };
	(void)spend_on_texts(module, before);
}

static struct symbol_frame *new_frames(
	struct module_query *query, struct arena *arena, size_t count)
{
	struct symbol_frame *const frames =
		arena_alloc(arena, count * sizeof *frames, _Alignof(struct symbol_frame));

	query->frames = frames;
	query->frame_count = count;
	return frames;
}

static void take_answer(struct symbol_module *module, struct pending *pending, size_t i,
	const struct dwarf_answer *answer)
{
	struct module_work *const work = module->work;
	struct symbol_frame *const frames =
		new_frames(work->queries[i], &module->arena, answer->frame_count);

	for (uint32_t j = 0; j < answer->frame_count; j++) {
		const struct dwarf_frame from = dwarf_frame_named(answer, j, work->matches[i].name);
		frames[j].file = keep(module, pending, from.file);
		frames[j].line = from.line;
		frames[j].start_line = from.start_line;
		set_name(module, pending, &frames[j], from.linkage, from.name);
	}
}

static void take_match(struct symbol_module *module, struct pending *pending, size_t i)
{
	struct module_work *const work = module->work;

	if (work->matches[i].name == NULL)
		return;
	struct symbol_frame *const frame = new_frames(work->queries[i], &module->arena, 1);
	*frame = (struct symbol_frame){ .file = "" };
	set_name(module, pending, frame, work->matches[i].name, "");
}

static void demangle(struct symbol_module *module, struct name_table *names)
{
	CLEANUP(free_cleanup) char **texts = NULL;
	size_t count = 0;

	name_table_demangle(names, module->options->threads, &texts, &count);
	module->texts = xgrow(
		module->texts, &module->text_capacity, module->text_count + count, sizeof(char *));
	if (count != 0)
		memcpy(module->texts + module->text_count, texts, count * sizeof(char *));
	module->text_count += count;
}

static void build_frames(struct symbol_module *module)
{
	struct module_work *const work = module->work;
	const struct dwarf_answer *const answers =
		work->dwarf == NULL ? work->index_answers : dwarf_answers(work->dwarf);
	struct pending pending = { 0 };

	name_table_init(&pending.names, &module->strings, &work->search.budget);
	text_map_init(&pending.texts);
	for (size_t i = 0; i < work->count; i++) {
		if (answers != NULL && answers[i].frame_count != 0)
			take_answer(module, &pending, i, &answers[i]);
		else
			take_match(module, &pending, i);
	}
	/* The texts are kept; demangling takes memory as well. */
	if (work->dwarf != NULL)
		dwarf_release_answers(work->dwarf);
	/* The cache keeps both. */
	if (!module->options->no_demangle || module->subject != NULL)
		demangle(module, &pending.names);
	for (size_t i = 0; i < pending.count; i++) {
		const struct name *const name = &pending.names.names[pending.frames[i].name];
		struct symbol_frame *const frame = pending.frames[i].frame;
		frame->linkage_name = name->linkage;
		if (name->function[0] != '\0')
			frame->function = name->function;
		else if (frame->function[0] == '\0')
			frame->function = name->linkage;
	}
	name_table_deinit(&pending.names);
	text_map_deinit(&pending.texts);
	free(pending.frames);
}

/* Gives a query one frame with this function and nothing else. */
static void add_named_frame(
	struct symbol_module *module, struct module_query *query, const char *name)
{
	struct symbol_frame *const frame = new_frames(query, &module->arena, 1);

	*frame = (struct symbol_frame){
		.function = name,
		.linkage_name = "",
		.file = "",
	};
}

/* Puts the linkage names where the readable ones are. */
static void forget_demangled(struct symbol_module *module)
{
	for (size_t i = 0; i < module->query_count; i++) {
		struct module_query *const query = &module->queries[i];
		const struct symbol_frame *const old = query->frames;
		struct symbol_frame *const frames =
			new_frames(query, &module->arena, query->frame_count);
		for (size_t j = 0; j < query->frame_count; j++) {
			frames[j] = old[j];
			if (frames[j].linkage_name[0] != '\0')
				frames[j].function = frames[j].linkage_name;
		}
	}
}

void module_begin(struct symbol_module *module, const struct symbol_mapping *mappings,
	size_t mapping_count, const uint64_t *run_limits, uint64_t page_limit)
{
	module->mappings = mappings;
	module->mapping_count = mapping_count;
	module->run_limits = run_limits;
	module->page_limit = page_limit;
	module->work = xcalloc(1, sizeof *module->work);
	file_search_init(&module->work->search, module->options, module->pid);
	module->work->search.debuginfod = module->debuginfod;
	module->work->search.debug_source = symbol_index_debug_source;
	work_budget_allow_addresses(&module->work->search.budget, module->query_count);
}

struct vaddr_of_query {
	uint64_t vaddr;
	struct module_query *query;
};

static int compare_vaddrs(const void *a, const void *b)
{
	const uint64_t left = ((const struct vaddr_of_query *)a)->vaddr;
	const uint64_t right = ((const struct vaddr_of_query *)b)->vaddr;

	return left < right ? -1 : left > right;
}

/* Whether the mapping of a query is proved to be of this image. */
static bool is_proved(const struct symbol_module *module, const struct elf_image *image,
	const struct symbol_mapping *mapping)
{
	const struct module_layout layout = { image->segments, image->segment_count };

	return module->build_id[0] != '\0' || !image->has_code ||
	       strcmp(module->path, "[vdso]") == 0 || module_mapping_fits(module, mapping, &layout);
}

static void translate_queries(struct symbol_module *module, const struct elf_image *image)
{
	struct module_work *const work = module->work;
	CLEANUP(free_cleanup)
	struct vaddr_of_query *pairs = xcalloc(module->query_count, sizeof *pairs);
	const struct symbol_mapping *checked = NULL;
	bool is_right = false;

	if (!image->has_code)
		module_find_bases(module);
	for (size_t i = 0; i < module->query_count; i++) {
		struct module_query *const query = &module->queries[i];
		uint64_t vaddr = 0;
		if (query->is_answered || query->mapping == NULL)
			continue;
		if (query->mapping != checked)
			is_right = is_proved(module, image, query->mapping);
		checked = query->mapping;
		if (is_right && module_translate(module, image, query, &vaddr))
			pairs[work->count++] = (struct vaddr_of_query){ vaddr, query };
	}
	qsort(pairs, work->count, sizeof *pairs, compare_vaddrs);
	work->vaddrs = xcalloc(work->count, sizeof *work->vaddrs);
	work->queries = xcalloc(work->count, sizeof *work->queries);
	for (size_t i = 0; i < work->count; i++) {
		work->vaddrs[i] = pairs[i].vaddr;
		work->queries[i] = pairs[i].query;
	}
	work->matches = xcalloc(work->count, sizeof *work->matches);
	work->is_function = xcalloc(work->count, sizeof *work->is_function);
}

static void match_symbols(struct symbol_module *module)
{
	struct module_work *const work = module->work;
	const struct symbol_images images = { &work->image, &work->debug, &work->mini };

	symbol_images_open_mini(&work->image, &work->mini);
	const enum symbol_source source =
		symbol_images_match(&images, work->vaddrs, work->count, work->matches);
	/* A damaged index may have more. */
	if (work->index == NULL || source > module->report.source)
		module->report.source = source;
}

static void set_problem(struct symbol_module *module, const char *problem, const char *hint)
{
	module->report.problem = module_keep(module, problem);
	module->report.hint = module_keep(module, hint);
}

static void drop_index(struct module_work *work)
{
	symbol_index_free(work->index);
	work->index = NULL;
	work->index_answers = NULL;
	elf_image_close(&work->index_image);
}

/* Clears what was said of files that are not needed any more. */
static void set_no_problem(struct symbol_module *module)
{
	set_problem(module, "", "");
	module->report.is_damaged = false;
}

static void set_damaged(
	struct symbol_module *module, const char *path, const char *problem, const char *hint)
{
	CLEANUP(buffer_deinit) struct buffer removal = BUFFER_OR_EXIT;

	set_problem(module, problem, file_search_hint(&module->work->search, path, hint, &removal));
	module->report.is_damaged = true;
}

/*
 * Takes the answers of an index of this source or a better one, and the image as well unless it is
 * the module's. False when it cannot be used or a part of it is damaged: what the first such one
 * has is kept, but the search goes on.
 */
static bool take_index(
	struct symbol_module *module, struct elf_image *image, enum symbol_source least)
{
	struct module_work *const work = module->work;
	CLEANUP(symbol_index_cleanup) struct symbol_index *index = NULL;
	CLEANUP(buffer_deinit) struct buffer problem = BUFFER_OR_EXIT;
	struct error err;

	if (!symbol_index_open(image, &work->search.budget, &index, &err)) {
		set_damaged(module, image->path, err.message, err.hint);
		return false;
	}
	const enum symbol_source source = symbol_index_source(index);
	if (source < least)
		return false;
	const struct dwarf_answer *const answers =
		symbol_index_find(index, work->vaddrs, work->count, module->options->threads);
	const bool is_damaged = symbol_index_is_damaged(index);
	if (is_damaged && work->index != NULL)
		return false;
	if (is_damaged) {
		buffer_printf(&problem, "%s: this index of symbols is damaged", image->path);
		set_damaged(module, image->path, buffer_string(&problem),
			"make it again with heapctl symbols index");
	} else if (source == SYMBOL_SOURCE_DWARF) {
		set_no_problem(module);
	}
	drop_index(work);
	work->index = TAKE(index);
	work->index_answers = answers;
	module->report.source = source;
	if (image != &work->image) {
		module->report.debug_file = module_keep(module, image->path);
		work->index_image = *image;
		*image = (struct elf_image){ 0 };
	}
	return !is_damaged;
}

/* The same with the index that was found in place of the file, or the one in the cache. */
static bool find_in_index(struct symbol_module *module, enum symbol_source least)
{
	struct module_work *const work = module->work;
	struct elf_image cached = { 0 };

	if (symbol_index_exists(&work->image) && take_index(module, &work->image, least))
		return true;
	if (!file_search_index(&work->search, work->image.build_id, &cached))
		return false;
	const bool is_taken = take_index(module, &cached, least);
	elf_image_close(&cached);
	return is_taken;
}

/* Finds the debug file. True when it is an index that has all answers. */
static bool find_debug(struct symbol_module *module)
{
	struct module_work *const work = module->work;
	const enum symbol_source least =
		dwarf_exists(&work->image) ? SYMBOL_SOURCE_DWARF : SYMBOL_SOURCE_TABLE;

	if (!work->image.has_code && !symbol_index_exists(&work->image))
		return false;
	while (file_search_debug(&work->search, &work->image, &work->debug)) {
		const char *const path = module_keep(module, work->debug.path);
		if (!symbol_index_exists(&work->debug)) {
			module->report.debug_file = path;
			return false;
		}
		if (take_index(module, &work->debug, least))
			return true;
		file_search_skip(&work->search, path);
		elf_image_close(&work->debug);
	}
	return false;
}

static bool answer_by_dwarf(
	struct symbol_module *module, const struct elf_image *image, struct error *err)
{
	struct module_work *const work = module->work;

	for (size_t i = 0; i < work->count; i++)
		work->is_function[i] = module->report.source != SYMBOL_SOURCE_TABLE ||
				       work->matches[i].name != NULL;
	const struct dwarf_addresses addresses = { work->vaddrs, work->is_function, work->count };
	if (!dwarf_reader_answer(
		    image, &work->search, work->image.path, &addresses, &work->dwarf, err))
		return false;
	drop_index(work);
	const struct elf_image *const debug = image == &work->image ? &work->debug : image;
	module->report.debug_file = module_keep(module, debug->data == NULL ? "" : debug->path);
	module->report.source = SYMBOL_SOURCE_DWARF;
	set_no_problem(module);
	return true;
}

/* Another copy of a damaged debug file; matches still have the names of the first one. */
static void open_other_debug(struct symbol_module *module)
{
	struct module_work *const work = module->work;
	struct elf_image *const other = &work->other_debug;
	const char *path = work->debug.path;
	struct error ignored;

	do {
		file_search_skip(&work->search, path);
		elf_image_close(other);
		if (!file_search_debug(&work->search, &work->image, other))
			return;
		path = module_keep(module, other->path);
	} while (symbol_index_exists(other)
			 ? !take_index(module, other, SYMBOL_SOURCE_DWARF)
			 : !dwarf_exists(other) || !answer_by_dwarf(module, other, &ignored));
	module->report.debug_file = path;
}

static void open_dwarf(struct symbol_module *module)
{
	struct module_work *const work = module->work;
	const struct elf_image *const images[] = { &work->image, &work->debug };
	struct error err;

	for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
		if (!dwarf_exists(images[i]))
			continue;
		if (answer_by_dwarf(module, images[i], &err))
			return;
		const bool is_damage = err.kind != ERROR_UNSUPPORTED && err.kind != ERROR_MEMORY;
		(void)!dwarf_hint(&err);
		set_damaged(module, is_damage ? images[i]->path : "", err.message, err.hint);
	}
	if (dwarf_exists(&work->debug))
		open_other_debug(module);
}

/* Code that the process made itself may have names in the map it writes for perf. */
static bool name_by_perf_map(struct symbol_module *module)
{
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(free_cleanup) uint64_t *addresses = xcalloc(module->query_count, sizeof *addresses);
	CLEANUP(free_cleanup)
	struct perf_map_match *matches = xcalloc(module->query_count, sizeof *matches);
	CLEANUP(text_map_deinit) struct text_map names = { 0 };

	if (module->pid <= 0 || !perf_map_read(module->pid, &path, &text))
		return false;
	for (size_t i = 0; i < module->query_count; i++)
		addresses[i] = module->queries[i].address;
	(void)perf_map_find(&text, addresses, module->query_count, matches);
	(void)buffer_string(&text);
	for (size_t i = 0; i < module->query_count; i++) {
		char *const name = text.data + matches[i].name;
		if (matches[i].name_size == 0)
			continue;
		/* In place of the newline: addresses that share a long name read it once. */
		name[matches[i].name_size] = '\0';
		add_named_frame(
			module, &module->queries[i], text_map_add(&names, &module->strings, name));
	}
	module->report.file = module_keep(module, buffer_string(&path));
	module->report.source = SYMBOL_SOURCE_TABLE;
	return true;
}

static bool is_file(const struct symbol_module *module)
{
	return module->file != NULL || module->path[0] == '/' ||
	       strcmp(module->path, "[vdso]") == 0;
}

void module_locate(struct symbol_module *module)
{
	struct module_work *const work = module->work;
	CLEANUP(buffer_deinit) struct buffer problem = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer hint = BUFFER_OR_EXIT;

	if (!is_file(module)) {
		if (!name_by_perf_map(module))
			set_problem(module, "memory that no file is mapped to",
				"for code made at run time, let the process write a map for perf "
				"(node --perf-basic-prof, java -XX:+DumpPerfMapAtExit)");
		return;
	}
	if (module_cache_load(module))
		return;
	if (!module_file_open(module, &work->search, &work->image, &problem, &hint)) {
		if (!name_by_perf_map(module))
			set_problem(module, buffer_string(&problem), buffer_string(&hint));
		return;
	}
	set_problem(module, "", "");
	module->report.file = module_keep(module, work->image.path);
	module->report.build_id = module_keep(module, work->image.build_id);
	translate_queries(module, &work->image);
	if (find_in_index(module, SYMBOL_SOURCE_DWARF))
		return;
	if (find_debug(module))
		return;
	/* One without files and lines is better than nothing. */
	if (!dwarf_exists(&work->image) && work->debug.data == NULL &&
		find_in_index(module, SYMBOL_SOURCE_TABLE))
		return;
	match_symbols(module);
	open_dwarf(module);
}

size_t module_job_count(const struct symbol_module *module)
{
	const struct dwarf_reader *const dwarf = module->work->dwarf;

	return dwarf == NULL ? 0 : dwarf_job_count(dwarf);
}

uint64_t module_job_bytes(const struct symbol_module *module, size_t job)
{
	return dwarf_job_bytes(module->work->dwarf, job);
}

void module_run_job(struct symbol_module *module, size_t job)
{
	dwarf_run_job(module->work->dwarf, job);
}

static bool is_named(const struct module_query *query)
{
	for (size_t i = 0; i < query->frame_count; i++)
		if (query->frames[i].function[0] != '\0')
			return true;
	return false;
}

/*
 * Whether the file that was read is the one at the profile's path: the package of any other file is
 * unknown.
 */
static bool is_at_its_path(const struct symbol_module *module)
{
	if (module->file == NULL)
		return module->options->sysroot == NULL;
	CLEANUP(free_cleanup) char *real = realpath(module->file, NULL);
	return real != NULL && strcmp(real, module->path) == 0;
}

static bool has_full_index(const struct module_work *work)
{
	return work->index != NULL && symbol_index_source(work->index) == SYMBOL_SOURCE_DWARF;
}

bool module_wants_package(const struct symbol_module *module)
{
	const struct module_work *const work = module->work;

	return work->image.data != NULL && work->dwarf == NULL && !has_full_index(work) &&
	       module->path[0] == '/' && is_at_its_path(module);
}

static void explain_missing_debug(struct symbol_module *module, const char *package)
{
	static const char *const problems[] = {
		[SYMBOL_SOURCE_NONE] = "it is stripped, and its debug file was not found",
		[SYMBOL_SOURCE_DYNAMIC] =
			"exported functions only: it is stripped, and its debug file was not found",
		[SYMBOL_SOURCE_TABLE] = "no files and lines: its debug file was not found",
		[SYMBOL_SOURCE_DWARF] = "",
	};
	CLEANUP(buffer_deinit) struct buffer hint = BUFFER_OR_EXIT;

	if (package != NULL)
		buffer_printf(&hint, "install %s-dbgsym (or %s-dbg), or ", package, package);
	buffer_append_string(&hint, "point --build-id-dir at its debug files");
	if (module->report.build_id[0] != '\0' && module->options->debuginfod_urls == NULL)
		buffer_append_string(&hint, ", or allow --debuginfod");
	if (module->work->search.hint.size != 0)
		buffer_printf(&hint, ", or %s", buffer_string(&module->work->search.hint));
	set_problem(module, problems[module->report.source], buffer_string(&hint));
}

/* A debug file or an index was found, and no address has a place in it. */
static bool has_no_places(const struct symbol_module *module)
{
	const struct module_work *const work = module->work;

	if (work->image.data == NULL || work->image.has_code || work->count != 0)
		return false;
	for (size_t i = 0; i < module->query_count; i++)
		if (!module->queries[i].is_answered && module->queries[i].mapping != NULL)
			return true;
	return false;
}

void module_explain(struct symbol_module *module, const char *package)
{
	struct module_work *const work = module->work;

	if (module->report.problem[0] == '\0' && has_no_places(module)) {
		set_problem(module, "its mappings do not say where in the file the addresses are",
			"give the file that ran, or point --sysroot at a copy of the system it ran "
			"on");
		return;
	}
	if (work->image.data == NULL || has_full_index(work) || module->report.problem[0] != '\0' ||
		strcmp(module->path, "[vdso]") == 0)
		return;
	if (work->dwarf == NULL && work->search.problem.size != 0) {
		set_problem(module, buffer_string(&module->work->search.problem),
			buffer_string(&module->work->search.hint));
		if (work->search.found_damaged)
			module->report.is_damaged = true;
		return;
	}
	if (work->dwarf == NULL) {
		explain_missing_debug(module, package);
		return;
	}
	CLEANUP(buffer_deinit) struct buffer problem = BUFFER_OR_EXIT;
	if (dwarf_is_damaged(work->dwarf, &problem)) {
		set_damaged(module, module->report.debug_file, buffer_string(&problem),
			DWARF_DAMAGE_HINT);
		return;
	}
	CLEANUP(buffer_deinit) struct buffer damage = BUFFER_OR_EXIT;
	work->has_damaged_split = dwarf_has_damaged_split(work->dwarf, &damage);
	const char *const split = dwarf_split_problem(work->dwarf);
	const char *const alternate = dwarf_alternate_problem(work->dwarf);
	if (work->has_damaged_split) {
		buffer_printf(&problem, "inlined functions of some units are missing: %s",
			buffer_string(&damage));
		set_problem(module, buffer_string(&problem), DWARF_DAMAGE_HINT);
	} else if (split != NULL) {
		buffer_printf(&problem, "inlined functions of some units are missing: %s", split);
		set_problem(module, buffer_string(&problem), DWARF_SPLIT_HINT);
	} else if (alternate != NULL) {
		buffer_printf(&problem,
			"some names are missing, which dwz moved to another file: %s", alternate);
		set_problem(module, buffer_string(&problem), DWARF_ALTERNATE_HINT);
	}
}

/* Addresses without a name at least get the start of their function. */
static void find_function_starts(struct symbol_module *module)
{
	struct module_work *const work = module->work;
	struct function_starts *const starts = work->image.data == NULL || !work->image.has_code
						       ? NULL
						       : function_starts_new(&work->image);

	for (size_t i = 0; starts != NULL && i < work->count; i++)
		if (!is_named(work->queries[i]))
			work->queries[i]->into_function =
				function_starts_find(starts, work->vaddrs[i]);
	function_starts_free(starts);
}

/* The last step that spends work is to keep the names. */
static void explain_spent(struct symbol_module *module)
{
	if (!work_budget_is_spent(&module->work->search.budget))
		return;
	set_problem(module,
		"reading it was stopped: it needs far more work than a file of its size, so it is "
		"damaged or malicious",
		"get the file from where it was built");
	module->report.is_damaged = true;
}

void module_finish(struct symbol_module *module)
{
	struct module_work *const work = module->work;

	build_frames(module);
	explain_spent(module);
	find_function_starts(module);
	/*
	 * Servers that did not have it or were not reachable may answer the next time, and a
	 * damaged file is reported each time, so nothing is cached.
	 */
	if (work->image.data != NULL && work->search.problem.size == 0 && !work->search.is_missed &&
		!module->report.is_damaged && !work->has_damaged_split)
		module_cache_store(module, &work->image, &work->search);
	if (module->options->no_demangle)
		forget_demangled(module);
	module->report.address_count += module->query_count;
	for (size_t i = 0; i < module->query_count; i++)
		if (is_named(&module->queries[i]))
			module->report.named_count++;
	dwarf_reader_free(work->dwarf);
	drop_index(work);
	elf_image_close(&work->image);
	elf_image_close(&work->debug);
	elf_image_close(&work->other_debug);
	elf_image_close(&work->mini);
	file_search_deinit(&work->search);
	free(work->vaddrs);
	free(work->queries);
	free(work->matches);
	free(work->is_function);
	free(work);
	module->work = NULL;
}
