/* SPDX-License-Identifier: Apache-2.0 */
#include "source/symbolize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/string_pool.h"
#include "base/xalloc.h"
#include "symbol/elf_image.h"

/* Whether the address of a location is still to be named. */
bool symbolize_is_needed(const struct profile *profile)
{
	for (size_t i = 0; i < profile->location_count; i++) {
		if (profile_location_is_unnamed(profile, &profile->locations[i]))
			return true;
	}
	return false;
}

static bool is_same_process(const struct profile *a, const struct profile *b)
{
	if (a->mapping_count != b->mapping_count)
		return false;
	for (size_t i = 0; i < a->mapping_count; i++) {
		const struct profile_mapping *const x = &a->mappings[i];
		const struct profile_mapping *const y = &b->mappings[i];
		if (x->start != y->start || x->limit != y->limit ||
			x->file_offset != y->file_offset || strcmp(x->path, y->path) != 0 ||
			strcmp(x->build_id, y->build_id) != 0)
			return false;
	}
	return true;
}

/* Addresses of all profiles of one process, and what was found for them. */
struct batch {
	uint64_t *addresses;
	size_t count, capacity;
	uint32_t *mappings; /* of the addresses; PROFILE_NONE where unknown */
	size_t mapping_count, mapping_capacity;
	struct symbol_result *results;
};

static void batch_deinit(struct batch *batch)
{
	free(batch->addresses);
	free(batch->mappings);
	free(batch->results);
}

static void collect(struct batch *batch, const struct profile *profile)
{
	for (size_t i = 0; i < profile->location_count; i++) {
		const struct profile_location *const location = &profile->locations[i];
		if (!profile_location_is_unnamed(profile, location))
			continue;
		*XAPPEND(batch->addresses, batch->count, batch->capacity) =
			location->address - !location->is_exact;
		*XAPPEND(batch->mappings, batch->mapping_count, batch->mapping_capacity) =
			location->mapping;
	}
}

/* Writes the results, in the order in which collect asked, into the profile. */
static size_t hand_out(const struct batch *batch, size_t next, struct profile *profile)
{
	CLEANUP(text_map_deinit) struct text_map texts = { 0 };

	for (size_t i = 0; i < profile->location_count; i++) {
		struct profile_location *const location = &profile->locations[i];
		if (!profile_location_is_unnamed(profile, location))
			continue;
		const struct symbol_result result = batch->results[next++];
		location->first_frame = (uint32_t)profile->frame_count;
		for (size_t f = 0; f < result.frame_count; f++) {
			const struct symbol_frame *const from = &result.frames[f];
			const struct profile_frame frame = { from->function, from->linkage_name,
				from->file, from->line, from->start_line };
			profile_copy_frame(profile, &texts, &frame);
		}
		location->frame_count = (uint32_t)result.frame_count;
		/* The profile may say what a file that is gone no longer does. */
		if (result.function_start != 0)
			location->function_start = result.function_start;
	}
	return next;
}

/*
 * The file below one of the folders: all of its path, then with fewer and fewer folders in front,
 * each tried in all of the folders. NULL when there is none. The profile keeps the text.
 */
static const char *find_below(struct profile *profile, const char *prefixes, const char *path)
{
	for (const char *rest = path; rest != NULL && rest[0] == '/';
		rest = strchr(rest + 1, '/')) {
		for (const char *prefix = prefixes; *prefix != '\0';) {
			const size_t size = strcspn(prefix, ",");
			CLEANUP(free_cleanup)
			char *found = xasprintf("%.*s%s", (int)size, prefix, rest);
			if (size != 0 && access(found, F_OK) == 0)
				return profile_intern(profile, found);
			prefix += size + (prefix[size] == ',');
		}
	}
	return NULL;
}

/* The processes that a profile's files are read through. */
struct file_view {
	pid_t own;
	pid_t shared; /* the first of the processes that see the same files */
};

static struct symbol_mapping *make_mappings(struct profile *profile,
	const struct symbolize_options *options, const struct file_view *view)
{
	struct symbol_mapping *const mappings = xcalloc(profile->mapping_count, sizeof *mappings);
	const char *const main_path = profile_main_path(profile);

	for (size_t i = 0; i < profile->mapping_count; i++) {
		const struct profile_mapping *const from = &profile->mappings[i];
		mappings[i] = (struct symbol_mapping){
			.start = from->start,
			.limit = from->limit,
			.file_offset = from->file_offset,
			.path = from->path,
			.build_id = from->build_id,
			/* Only a process itself has what was deleted, and names for code it made.
			 */
			.pid = from->deleted || from->path[0] == '\0' ? view->own : view->shared,
			.deleted = from->deleted,
		};
		if (options->program != NULL && from->path[0] != '\0' &&
			strcmp(from->path, main_path) == 0)
			mappings[i].file = options->program;
		else if (options->lib_prefixes != NULL)
			mappings[i].file = find_below(profile, options->lib_prefixes, from->path);
	}
	return mappings;
}

/*
 * A heap profile names its files by path alone; what the symbols were read from says which build
 * that is, and a later reader of the profile can find the same one.
 */
static void adopt_build_ids(const struct symbolizer *symbolizer, struct profile *profile)
{
	CLEANUP(string_pool_deinit) struct string_pool paths = { 0 };
	CLEANUP(text_numbers_deinit) struct text_numbers numbers = { 0 };
	size_t count = 0;
	const struct symbol_module_report *const reports = symbolizer_reports(symbolizer, &count);
	CLEANUP(free_cleanup) const char **build_ids = xcalloc(count, sizeof *build_ids);

	string_pool_init(&paths);
	for (size_t r = 0; r < count; r++) {
		const size_t known = numbers.count;
		if (reports[r].build_id[0] != '\0' &&
			text_numbers_add(&numbers, string_pool_add(&paths, reports[r].path)) ==
				known)
			build_ids[known] = reports[r].build_id;
	}
	const size_t known = numbers.count;
	for (size_t i = 0; i < profile->mapping_count; i++) {
		struct profile_mapping *const mapping = &profile->mappings[i];
		if (mapping->build_id[0] != '\0')
			continue;
		const uint32_t path =
			text_numbers_add(&numbers, string_pool_add(&paths, mapping->path));
		if (path < known)
			mapping->build_id = profile_intern(profile, build_ids[path]);
	}
}

static bool has_generated_code(const struct profile *profile)
{
	for (size_t i = 0; i < profile->mapping_count; i++) {
		if (profile->mappings[i].executable && profile->mappings[i].path[0] == '\0')
			return true;
	}
	return false;
}

/* Whether what is found for one is right for the other, too: they have the same mappings. */
static bool shares_names(
	const struct profile *profile, const struct file_view *a, const struct file_view *b)
{
	return a->own == b->own || (a->shared == b->shared && !has_generated_code(profile));
}

/* Profiles from the first on that are of its process. */
static void resolve_process(struct symbolizer *symbolizer, struct profile *const *profiles,
	const struct file_view *views, size_t count, const struct symbolize_options *options,
	bool *is_done)
{
	struct profile *const first = profiles[0];
	CLEANUP(free_cleanup)
	struct symbol_mapping *mappings = make_mappings(first, options, &views[0]);
	CLEANUP(batch_deinit) struct batch batch = { 0 };
	CLEANUP(free_cleanup) bool *is_ours = xcalloc(count, sizeof *is_ours);

	for (size_t i = 0; i < count; i++) {
		is_ours[i] = !is_done[i] &&
			     (i == 0 || (is_same_process(first, profiles[i]) &&
						shares_names(first, &views[0], &views[i])));
		if (is_ours[i])
			collect(&batch, profiles[i]);
	}
	batch.results = xcalloc(batch.count, sizeof *batch.results);
	symbolizer_resolve(symbolizer, mappings, first->mapping_count, batch.addresses,
		batch.mappings, batch.count, batch.results);
	size_t next = 0;
	for (size_t i = 0; i < count; i++) {
		if (is_ours[i]) {
			next = hand_out(&batch, next, profiles[i]);
			adopt_build_ids(symbolizer, profiles[i]);
		}
		is_done[i] |= is_ours[i];
	}
}

/* Refuses a program of which the symbolizer says that it is another one. */
static bool check_program(const struct symbolizer *symbolizer, struct profile *const *profiles,
	size_t count, const char *program, struct error *err)
{
	size_t report_count = 0;
	const struct symbol_module_report *const reports =
		symbolizer_reports(symbolizer, &report_count);

	for (size_t r = 0; r < report_count; r++) {
		if (reports[r].source != SYMBOL_SOURCE_NONE || reports[r].problem[0] == '\0' ||
			reports[r].path[0] == '\0')
			continue;
		for (size_t i = 0; i < count; i++) {
			if (strcmp(reports[r].path, profile_main_path(profiles[i])) != 0)
				continue;
			error_set(err, ERROR_USAGE, "%.160s does not match %.120s: %s", program,
				profiles[i]->name, reports[r].problem);
			return error_hint(
				err, "give the program that was profiled, %.200s", reports[r].path);
		}
	}
	return true;
}

/* What paths mean to a process: its root folder, and the mounts below it. */
struct path_space {
	dev_t root_device, mounts_device;
	ino_t root, mounts;
};

static struct path_space path_space_of(pid_t pid)
{
	struct path_space space = { 0 };
	struct stat root, mounts;
	char path[48];

	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	const bool has_root = stat(path, &root) == 0;
	snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
	if (!has_root || stat(path, &mounts) != 0)
		return space;
	return (struct path_space){ root.st_dev, mounts.st_dev, root.st_ino, mounts.st_ino };
}

static bool is_same_space(const struct path_space *a, const struct path_space *b)
{
	return a->mounts != 0 && a->root_device == b->root_device && a->root == b->root &&
	       a->mounts_device == b->mounts_device && a->mounts == b->mounts;
}

/* Processes that see the same files share one, so that each file is read once for all of them. */
static struct file_view *make_views(const struct symbolize_options *options, size_t count)
{
	const pid_t *const pids = options->pids;
	struct file_view *const views = xcalloc(count, sizeof *views);
	CLEANUP(free_cleanup) struct path_space *spaces = xcalloc(count, sizeof *spaces);

	for (size_t i = 0; i < count; i++) {
		const pid_t pid = pids == NULL ? options->pid : pids[i];
		views[i] = (struct file_view){ .own = pid, .shared = pid };
		if (pids == NULL || count == 1 || pid == 0)
			continue;
		spaces[i] = path_space_of(pid);
		for (size_t j = 0; j < i && views[i].shared == pid; j++) {
			if (is_same_space(&spaces[j], &spaces[i]))
				views[i].shared = views[j].shared;
		}
	}
	return views;
}

bool symbolize(struct symbolizer *symbolizer, struct profile *const *profiles, size_t count,
	const struct symbolize_options *options, struct error *err)
{
	CLEANUP(free_cleanup) bool *is_done = xcalloc(count, sizeof *is_done);
	CLEANUP(free_cleanup) struct file_view *views = make_views(options, count);

	for (size_t i = 0; i < count; i++) {
		is_done[i] |= !symbolize_is_needed(profiles[i]);
		if (!is_done[i])
			resolve_process(symbolizer, profiles + i, views + i, count - i, options,
				is_done + i);
	}
	return options->program == NULL ||
	       check_program(symbolizer, profiles, count, options->program, err);
}

/* The segment of code that the mapping has; NULL when it has none. */
static const struct elf_segment *find_segment(
	const struct elf_image *image, const struct profile_mapping *mapping)
{
	const uint64_t end = mapping->file_offset + (mapping->limit - mapping->start);

	for (size_t i = 0; i < image->segment_count; i++) {
		const struct elf_segment *const segment = &image->segments[i];
		if (segment->executable && segment->offset < end &&
			segment->offset + segment->file_bytes > mapping->file_offset)
			return segment;
	}
	return NULL;
}

/* A debug file does not say where in the program's file its segments are. */
static void read_executables(const struct symbol_module_report *report,
	const struct profile *profile, struct pprof_executable *executables)
{
	CLEANUP(elf_image_close) struct elf_image image = { 0 };
	struct error ignored;

	if (!elf_image_open(report->file, &image, &ignored) || !image.has_code)
		return;
	for (size_t i = 0; i < profile->mapping_count; i++) {
		const struct profile_mapping *const mapping = &profile->mappings[i];
		if (strcmp(mapping->path, report->path) != 0 ||
			strcmp(mapping->build_id, image.build_id) != 0)
			continue;
		const struct elf_segment *const segment = find_segment(&image, mapping);
		if (segment != NULL)
			executables[i] = (struct pprof_executable){
				.elf_type = ((const Elf64_Ehdr *)(const void *)image.data)->e_type,
				.offset = segment->offset,
				.vaddr = segment->vaddr,
			};
	}
}

struct pprof_executable *symbolize_find_executables(
	const struct symbolizer *symbolizer, const struct profile *profile)
{
	struct pprof_executable *const executables =
		xcalloc(profile->mapping_count, sizeof *executables);
	size_t count = 0;
	const struct symbol_module_report *const reports = symbolizer_reports(symbolizer, &count);

	for (size_t i = 0; i < count; i++) {
		if (reports[i].file[0] != '\0')
			read_executables(&reports[i], profile, executables);
	}
	return executables;
}

/* How far above its place in the file's own addresses the mapping is. */
static uint64_t distance_of(
	const struct profile_mapping *mapping, const struct pprof_executable *executable)
{
	if (executable->elf_type == 0)
		return 0;
	return mapping->start - mapping->file_offset + executable->offset - executable->vaddr;
}

void symbolize_use_file_addresses(
	struct profile *profile, const struct pprof_executable *executables)
{
	for (size_t i = 0; i < profile->location_count; i++) {
		struct profile_location *const location = &profile->locations[i];
		if (location->mapping != PROFILE_NONE)
			location->address -= distance_of(&profile->mappings[location->mapping],
				&executables[location->mapping]);
	}
	for (size_t i = 0; i < profile->mapping_count; i++) {
		struct profile_mapping *const mapping = &profile->mappings[i];
		const uint64_t distance = distance_of(mapping, &executables[i]);
		mapping->start -= distance;
		mapping->limit -= distance;
	}
}

#define PAGE_BYTES UINT64_C(4096)

bool program_mappings_add(struct profile *profile, const char *path, struct error *err)
{
	CLEANUP(elf_image_close) struct elf_image image = { 0 };
	CLEANUP(free_cleanup) char *full_path = realpath(path, NULL);

	if (!elf_image_open(path, &image, err))
		return false;
	for (size_t i = 0; i < image.segment_count; i++) {
		const struct elf_segment *const segment = &image.segments[i];
		const uint64_t lead = segment->vaddr % PAGE_BYTES;
		const uint64_t end = segment->vaddr + segment->file_bytes;
		const struct profile_mapping mapping = {
			.start = segment->vaddr - lead,
			.limit = (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES,
			.file_offset = segment->offset - lead,
			.path = full_path == NULL ? path : full_path,
			.build_id = image.build_id,
		};
		if (segment->executable &&
			!profile_is_mapped(profile, mapping.start, mapping.limit))
			profile_add_mapping(profile, &mapping);
	}
	return true;
}
