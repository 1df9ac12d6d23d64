/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/module.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/search.h"
#include "base/xalloc.h"

struct symbol_module *module_new(
	const struct symbolizer_options *options, const struct symbol_mapping *mapping)
{
	struct symbol_module *const module = xcalloc(1, sizeof *module);

	string_pool_init(&module->strings);
	arena_init(&module->arena);
	module->options = options;
	module->path = module_keep(module, mapping->path);
	module->build_id = module_keep(module, mapping->build_id);
	module->file = mapping->file == NULL ? NULL : module_keep(module, mapping->file);
	module->pid = mapping->pid;
	module->deleted = mapping->deleted;
	module->report = (struct symbol_module_report){
		.path = module->path,
		.file = "",
		.debug_file = "",
		.build_id = module->build_id,
		.problem = "",
		.hint = "",
	};
	return module;
}

void module_free(struct symbol_module *module)
{
	if (module == NULL)
		return;
	for (size_t i = 0; i < module->cache_count; i++) {
		symbol_cache_deinit(module->caches[i]);
		free(module->caches[i]);
	}
	free(module->caches);
	string_pool_deinit(&module->strings);
	arena_deinit(&module->arena);
	for (size_t i = 0; i < module->text_count; i++)
		free(module->texts[i]);
	free(module->texts);
	free(module->bases);
	free(module->queries);
	free(module);
}

bool module_owns(const struct symbol_module *module, const struct symbol_mapping *mapping)
{
	const bool has_file = mapping->file != NULL;

	return module->pid == mapping->pid && module->deleted == mapping->deleted &&
	       strcmp(module->path, mapping->path) == 0 &&
	       strcmp(module->build_id, mapping->build_id) == 0 &&
	       (module->file != NULL) == has_file &&
	       (!has_file || strcmp(module->file, mapping->file) == 0);
}

static const uint64_t MIN_PAGE_BYTES = 4096;
static const uint64_t MAX_PAGE_BYTES = 65536;

static uint64_t round_down(uint64_t value, uint64_t page)
{
	return value & ~(page - 1);
}

static uint64_t round_up(uint64_t value, uint64_t page)
{
	return value > UINT64_MAX - page ? value : (value + page - 1) & ~(page - 1);
}

/* The process' mapping that covers an address. */
static const struct symbol_mapping *mapping_at(const struct symbol_module *module, uint64_t address)
{
	const size_t count = search_count_up_to(module->mappings, module->mapping_count,
		sizeof *module->mappings, offsetof(struct symbol_mapping, start), address);

	if (count == 0 || module->mappings[count - 1].limit <= address)
		return NULL;
	return &module->mappings[count - 1];
}

void mapping_runs_find(
	const struct symbol_mapping *mappings, size_t mapping_count, uint64_t *run_limits)
{
	for (size_t i = mapping_count; i-- > 0;) {
		const uint64_t limit = mappings[i].limit;
		const size_t next = search_count_up_to(mappings, mapping_count, sizeof *mappings,
			offsetof(struct symbol_mapping, start), limit);
		run_limits[i] = next > i + 1 && mappings[next - 1].limit > limit
					? run_limits[next - 1]
					: limit;
	}
}

uint64_t mapping_page_limit(const struct symbol_mapping *mappings, size_t mapping_count)
{
	uint64_t page = MAX_PAGE_BYTES;

	for (size_t i = 0; i < mapping_count && page > MIN_PAGE_BYTES; i++) {
		const uint64_t places =
			mappings[i].start | mappings[i].limit | mappings[i].file_offset;
		/* Other tools' mappings may end anywhere, which says nothing of pages. */
		while (places % MIN_PAGE_BYTES == 0 && places % page != 0)
			page /= 4;
	}
	return page;
}

/*
 * Whether something is mapped everywhere in [start, limit). The rest of a segment may have been
 * replaced by other memory (huge pages), but the loader leaves no hole in it.
 */
static bool is_covered(const struct symbol_module *module, uint64_t start, uint64_t limit)
{
	const struct symbol_mapping *const mapping = mapping_at(module, start);

	if (start >= limit)
		return true;
	return mapping != NULL && module->run_limits[mapping - module->mappings] >= limit;
}

static bool mapping_fits_segment(const struct symbol_module *module,
	const struct symbol_mapping *mapping, const struct elf_segment *segment, uint64_t page)
{
	uint64_t limit = 0;

	if (segment->file_bytes == 0 ||
		__builtin_add_overflow(segment->offset, segment->file_bytes, &limit))
		return false;
	const uint64_t first = round_down(segment->offset, page);
	const uint64_t last = round_up(limit, page);
	const uint64_t size = mapping->limit - mapping->start;
	if (mapping->file_offset < first || mapping->file_offset > last ||
		size > last - mapping->file_offset)
		return false;
	const uint64_t before = mapping->file_offset - first;
	const uint64_t after = last - mapping->file_offset - size;
	return before <= mapping->start &&
	       is_covered(module, mapping->start - before, mapping->start) &&
	       is_covered(module, mapping->limit, mapping->limit + after);
}

/*
 * With the mapping as a part of the segment, the file's last segment has a place, too: false when
 * the process had other bytes of the file there. Other memory may have replaced the segment, and
 * not all formats list the mappings of data.
 */
static bool last_segment_fits(const struct symbol_module *module,
	const struct symbol_mapping *mapping, const struct elf_segment *segment,
	const struct module_layout *layout)
{
	const struct elf_segment *const last = &layout->segments[layout->segment_count - 1];
	const uint64_t address = mapping->start - mapping->file_offset + segment->offset -
				 segment->vaddr + last->vaddr;
	const struct symbol_mapping *const there = mapping_at(module, address);

	return last->file_bytes == 0 || there == NULL || !module_owns(module, there) ||
	       address - there->start + there->file_offset == last->offset;
}

static bool fits(const struct symbol_module *module, const struct symbol_mapping *mapping,
	const struct module_layout *layout, bool only_code)
{
	for (uint64_t page = MIN_PAGE_BYTES; page <= module->page_limit; page *= 4)
		for (size_t i = 0; i < layout->segment_count; i++)
			if ((!only_code || layout->segments[i].executable) &&
				mapping_fits_segment(module, mapping, &layout->segments[i], page) &&
				last_segment_fits(module, mapping, &layout->segments[i], layout))
				return true;
	return false;
}

bool module_mapping_fits(const struct symbol_module *module, const struct symbol_mapping *mapping,
	const struct module_layout *layout)
{
	return fits(module, mapping, layout, false);
}

bool module_layout_fits(const struct symbol_module *module, const struct module_layout *layout,
	struct buffer *problem)
{
	const struct symbol_mapping *checked = NULL;
	const struct symbol_mapping *misfit = NULL;

	for (size_t i = 0; i < module->query_count; i++) {
		const struct symbol_mapping *const mapping = module->queries[i].mapping;
		if (mapping == checked || mapping == NULL)
			continue;
		checked = mapping;
		/* A small program's code fits into the constants of many a bigger one. */
		if (fits(module, mapping, layout, true))
			return true;
		misfit = mapping;
	}
	if (misfit == NULL)
		return true;
	buffer_clear(problem);
	buffer_printf(problem,
		"the file does not match: the process had bytes 0x%llx to 0x%llx of it mapped, "
		"where "
		"this file has no such segment",
		(unsigned long long)misfit->file_offset,
		(unsigned long long)(misfit->file_offset + misfit->limit - misfit->start));
	return false;
}

/* A profile may name the build only behind the code of a file. */
static bool owns_beginning(const struct symbol_module *module, struct symbol_mapping mapping)
{
	if (mapping.file_offset != 0)
		return false;
	if (mapping.build_id[0] == '\0')
		mapping.build_id = module->build_id;
	return module_owns(module, &mapping);
}

void module_find_bases(struct symbol_module *module)
{
	module->base_count = 0;
	for (size_t i = 0; i < module->mapping_count; i++)
		if (owns_beginning(module, module->mappings[i]))
			*XAPPEND(module->bases, module->base_count, module->base_capacity) =
				module->mappings[i].start;
}

/*
 * Whether the mapping would be a part of the image's code with the file's beginning at `base`, or
 * the code a part of the mapping, as where a tool has one mapping for all of a file.
 */
static bool is_code_at(const struct symbol_module *module, const struct elf_image *image,
	const struct symbol_mapping *mapping, uint64_t base)
{
	const uint64_t start =
		mapping->start - base + round_down(image->segments[0].vaddr, MIN_PAGE_BYTES);
	const uint64_t limit = start + (mapping->limit - mapping->start);

	for (uint64_t page = MIN_PAGE_BYTES; page <= module->page_limit; page *= 4)
		for (size_t i = 0; i < image->segment_count; i++) {
			const struct elf_segment *const segment = &image->segments[i];
			const uint64_t first = round_down(segment->vaddr, page);
			const uint64_t end = round_up(segment->vaddr + segment->memory_bytes, page);
			if (segment->executable && ((start >= first && limit <= end) ||
							   (start <= first && limit >= end)))
				return true;
		}
	return false;
}

/*
 * Where a profile lists mappings of code alone, as pprof does: the segment of the same size, in
 * pages of the size that gives it. False where sizes lead to different places.
 */
static bool find_base_by_size(const struct symbol_module *module, const struct elf_image *image,
	const struct symbol_mapping *mapping, uint64_t *base)
{
	const uint64_t first = round_down(image->segments[0].vaddr, MIN_PAGE_BYTES);
	bool is_found = false;

	for (uint64_t page = MIN_PAGE_BYTES; page <= module->page_limit; page *= 4)
		for (size_t i = 0; i < image->segment_count; i++) {
			const struct elf_segment *const segment = &image->segments[i];
			const uint64_t start = round_down(segment->vaddr, page);
			const uint64_t limit =
				round_up(segment->vaddr + segment->memory_bytes, page);
			if (!segment->executable ||
				mapping->limit - mapping->start != limit - start)
				continue;
			if (is_found && *base != mapping->start - start + first)
				return false;
			*base = mapping->start - start + first;
			is_found = true;
		}
	return is_found;
}

/*
 * Where the file's beginning is, for an address in its code. lld puts the first page of small
 * programs into two segments, so the nearest mapping of it may be the code itself.
 */
static bool find_base(const struct symbol_module *module, const struct elf_image *image,
	const struct module_query *query, uint64_t *base)
{
	enum { TRIED_BASES = 3 };
	const size_t below = search_count_up_to(
		module->bases, module->base_count, sizeof *module->bases, 0, query->address);

	for (size_t i = 0; i < below && i < TRIED_BASES; i++) {
		*base = module->bases[below - 1 - i];
		if (is_code_at(module, image, query->mapping, *base))
			return true;
	}
	return find_base_by_size(module, image, query->mapping, base);
}

bool module_translate(const struct symbol_module *module, const struct elf_image *image,
	const struct module_query *query, uint64_t *vaddr)
{
	uint64_t base = 0;

	if (image->has_code) {
		const struct elf_segment *const segment =
			elf_image_segment_at(image, query->file_offset);
		if (segment == NULL)
			return false;
		*vaddr = segment->vaddr + (query->file_offset - segment->offset);
		return true;
	}

	if (image->segment_count == 0 || !find_base(module, image, query, &base))
		return false;
	*vaddr = query->address - base + round_down(image->segments[0].vaddr, MIN_PAGE_BYTES);
	return true;
}

/* Whether an opened file may be read for this module; says why not. */
static bool is_right_file(
	const struct symbol_module *module, const struct elf_image *image, struct buffer *problem)
{
	const struct module_layout layout = { image->segments, image->segment_count };

	if (module->build_id[0] != '\0' && image->build_id[0] != '\0') {
		if (strcmp(module->build_id, image->build_id) == 0)
			return true;
		buffer_clear(problem);
		buffer_printf(problem,
			"the file does not match: the profile was taken with build-id %s, %s has "
			"%s",
			module->build_id, image->path, image->build_id);
		return false;
	}
	if (module->build_id[0] != '\0') {
		buffer_clear(problem);
		buffer_printf(problem,
			"the file does not match: the profile was taken with build-id %s, %s has "
			"none",
			module->build_id, image->path);
		return false;
	}
	/* The segments of a debug file say nothing about the program's file. */
	return !image->has_code || module_layout_fits(module, &layout, problem);
}

/* Says why not in `problem`, and in `hint` where that depends on the reason. */
static bool open_if_right(const struct symbol_module *module, struct file_search *search,
	const char *path, struct elf_image *image, struct buffer *problem, struct buffer *hint)
{
	struct elf_image opened;
	bool is_there = false;
	struct error err;

	const bool is_open = file_search_open(search, path, &opened, &is_there, &err);
	if (!is_there)
		return false;
	buffer_clear(hint);
	if (!is_open) {
		buffer_clear(problem);
		buffer_append_string(problem, err.message);
		if (err.kind == ERROR_UNSUPPORTED)
			buffer_append_string(hint, "read its addresses with addr2line");
		return false;
	}
	if (!is_right_file(module, &opened, problem)) {
		elf_image_close(&opened);
		return false;
	}
	*image = opened;
	return true;
}

/*
 * The very file that is mapped, through the kernel: also when it was deleted or replaced since.
 * When the same file is still at its path the path is taken, which says more.
 */
static bool open_mapped(const struct symbol_module *module, struct file_search *search,
	struct elf_image *image, struct buffer *problem, struct buffer *hint)
{
	if (module->pid <= 0 || module->query_count == 0 || module->queries[0].mapping == NULL)
		return false;
	CLEANUP(buffer_deinit) struct buffer mapped = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer place = BUFFER_OR_EXIT;
	buffer_printf(&mapped, "/proc/%d/map_files/%llx-%llx", (int)module->pid,
		(unsigned long long)module->queries[0].mapping->start,
		(unsigned long long)module->queries[0].mapping->limit);
	const struct file_identity wanted = file_search_identify(search, buffer_string(&mapped));
	if (wanted.inode == 0)
		return false;
	for (unsigned which = 0; file_search_place(search, module->path, which, &place); which++) {
		const struct file_identity there =
			file_search_identify(search, buffer_string(&place));
		if (file_identity_equal(&wanted, &there) &&
			open_if_right(module, search, buffer_string(&place), image, problem, hint))
			return true;
	}
	return open_if_right(module, search, buffer_string(&mapped), image, problem, hint);
}

/* The kernel's own library: the one in this process is the same if it is as big. */
static bool open_vdso(
	const struct symbol_module *module, struct elf_image *image, struct buffer *problem)
{
	const uintptr_t at = getauxval(AT_SYSINFO_EHDR);
	const struct symbol_mapping *const mapping = module->queries[0].mapping;
	Elf64_Ehdr header;
	struct elf_image opened;
	struct error err;

	buffer_append_string(problem, "code of another kernel");
	if (at == 0 || mapping == NULL)
		return false;
	memcpy(&header, (const void *)at, sizeof header);
	const uint64_t size = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
	if (mapping->file_offset != 0 ||
		round_up(size, MIN_PAGE_BYTES) != mapping->limit - mapping->start ||
		!elf_image_over("[vdso]", (const void *)at, size, NULL, &opened, &err))
		return false;
	if (module->build_id[0] != '\0' && strcmp(module->build_id, opened.build_id) != 0) {
		elf_image_close(&opened);
		return false;
	}
	*image = opened;
	return true;
}

static void explain_missing(const struct symbol_module *module, struct file_search *search,
	struct buffer *problem, struct buffer *hint)
{
	if (problem->size == 0) {
		buffer_append_string(problem,
			module->deleted ? "the file was deleted or replaced" : "not found");
		if (search->problem.size != 0) {
			buffer_printf(problem, ", and %s", buffer_string(&search->problem));
			buffer_append_string(hint, buffer_string(&search->hint));
		}
	}
	if (hint->size != 0)
		return;
	if (module->build_id[0] != '\0')
		buffer_printf(hint,
			"point --build-id-dir at its debug files or --sysroot at a copy of the "
			"system it ran on%s%s",
			search->debuginfod == NULL ? ", or allow --debuginfod"
			: search->hint.size == 0   ? ""
						   : ", or ",
			buffer_string(&search->hint));
	else
		buffer_append_string(hint,
			"give the file that ran, or point --sysroot at a copy of the system it ran "
			"on");
}

bool module_file_open(const struct symbol_module *module, struct file_search *search,
	struct elf_image *image, struct buffer *problem, struct buffer *hint)
{
	CLEANUP(buffer_deinit) struct buffer place = BUFFER_OR_EXIT;

	if (module->file != NULL) {
		if (open_if_right(module, search, module->file, image, problem, hint))
			return true;
		explain_missing(module, search, problem, hint);
		return false;
	}
	if (strcmp(module->path, "[vdso]") == 0)
		return open_vdso(module, image, problem);
	if (open_mapped(module, search, image, problem, hint))
		return true;
	/* A file that is at the path of a deleted one is another one, unless it can be proved. */
	if (!module->deleted || module->build_id[0] != '\0')
		for (unsigned which = 0; file_search_place(search, module->path, which, &place);
			which++)
			if (open_if_right(
				    module, search, buffer_string(&place), image, problem, hint))
				return true;
	if (module->build_id[0] != '\0' &&
		(file_search_index(search, module->build_id, image) ||
			file_search_build_id(search, module->build_id, "", image) ||
			file_search_build_id(search, module->build_id, ".debug", image) ||
			file_search_download(search, module->build_id, image)))
		return true;
	explain_missing(module, search, problem, hint);
	return false;
}
