/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_split.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"
#include "symbol/dwarf_value.h"

struct dwarf_split_file {
	char *path;
	bool is_open;
	char *problem; /* why it is of no use; NULL where it is not there */
	struct elf_image image;
	struct dwarf dwarf;
};

void dwarf_splits_init(struct dwarf_splits *splits, struct file_search *search, const char *program)
{
	*splits = (struct dwarf_splits){ .search = search, .program = program };
	pthread_mutex_init(&splits->lock, NULL);
}

static void free_file(struct dwarf_split_file *file)
{
	if (file->is_open) {
		dwarf_deinit(&file->dwarf);
		elf_image_close(&file->image);
	}
	free(file->problem);
	free(file->path);
	free(file);
}

void dwarf_splits_deinit(struct dwarf_splits *splits)
{
	for (size_t i = 0; i < splits->file_count; i++)
		free_file(splits->files[i]);
	free(splits->files);
	free(splits->problem);
	pthread_mutex_destroy(&splits->lock);
	*splits = (struct dwarf_splits){ 0 };
}

const struct dwarf *dwarf_splits_damaged(const struct dwarf_splits *splits)
{
	for (size_t i = 0; i < splits->file_count; i++) {
		const struct dwarf_split_file *const file = splits->files[i];
		if (file->is_open && atomic_load(&file->dwarf.damage) != NULL)
			return &file->dwarf;
	}
	return NULL;
}

static bool open_contents(struct dwarf_splits *splits, struct dwarf_split_file *file)
{
	bool is_there = false;
	struct error err;

	if (!file_search_open(splits->search, file->path, &file->image, &is_there, &err)) {
		file->problem = is_there ? xstrdup(err.message) : NULL;
		return false;
	}
	if (dwarf_init(&file->dwarf, &file->image, true, 1, &splits->search->budget, &err))
		return true;
	file->problem = xstrdup(err.message);
	elf_image_close(&file->image);
	return false;
}

enum { OPEN_WORK = 1000 }; /* of opening a file */

/* What is there and cannot be used must not be called missing. */
static struct dwarf_split_file *open_or_note(struct dwarf_split_file *file, const char **problem)
{
	if (file->is_open)
		return file;
	if (*problem == NULL)
		*problem = file->problem;
	return NULL;
}

/*
 * The file at a path, opened once. Why it is of no use goes to `problem` unless it has a reason.
 * Called with the lock.
 */
static struct dwarf_split_file *open_file(
	struct dwarf_splits *splits, const char *path, const char **problem)
{
	/* The path is compared with those of all files that were opened before. */
	if (!work_budget_spend(&splits->search->budget, splits->file_count))
		return NULL;
	for (size_t i = 0; i < splits->file_count; i++)
		if (strcmp(splits->files[i]->path, path) == 0)
			return open_or_note(splits->files[i], problem);

	if (!work_budget_spend(&splits->search->budget, OPEN_WORK))
		return NULL;
	struct dwarf_split_file *const file = xcalloc(1, sizeof *file);
	file->path = xstrdup(path);
	file->is_open = open_contents(splits, file);
	splits->files = xgrow(splits->files, &splits->file_capacity, splits->file_count + 1,
		sizeof(struct dwarf_split_file *));
	splits->files[splits->file_count++] = file;
	return open_or_note(file, problem);
}

/* It was opened and lacks the unit. */
static void note_lack(struct dwarf_split_file *file, const char *why, const char **problem)
{
	if (file->problem == NULL)
		file->problem = xasprintf("%s %s", file->path, why);
	if (*problem == NULL)
		*problem = file->problem;
}

bool dwarf_unit_is_skeleton(struct dwarf_unit *unit)
{
	return dwarf_unit_root(unit)->split_name.form != 0;
}

static struct dwarf_unit *unit_by_id(struct dwarf *dwarf, uint64_t id)
{
	for (size_t i = 0; i < dwarf->unit_count && dwarf_spend(dwarf, 1); i++) {
		struct dwarf_unit *const unit = &dwarf->units[i];
		if (unit->encoding.version < 5)
			(void)dwarf_unit_root(unit);
		if (unit->id == id && unit->type != DW_UT_type && unit->type != DW_UT_split_type)
			return unit;
	}
	return NULL;
}

/* The index of a .dwp: an open-addressing table from ids to rows of section parts. */
struct package_index {
	struct cursor table; /* ids, then row numbers, then the offsets */
	uint16_t version;
	uint32_t columns;
	uint32_t rows;
	uint32_t slots;
};

static bool read_index(const struct elf_image *image, struct package_index *index)
{
	const struct elf_section *const section = elf_image_section(image, ".debug_cu_index");

	if (section == NULL)
		return false;
	struct cursor in = cursor_over(image->data + section->offset, section->size);
	index->version = (uint16_t)cursor_u32(&in); /* DWARF 5 has 16 bits and padding */
	index->columns = cursor_u32(&in);
	index->rows = cursor_u32(&in);
	index->slots = cursor_u32(&in);
	index->table = in;
	const uint64_t numbers = ((uint64_t)index->rows * 2 + 1) * index->columns;
	return cursor_ok(&in) && (index->version == 2 || index->version == 5) &&
	       index->slots != 0 && (index->slots & (index->slots - 1)) == 0 &&
	       index->columns <= 16 &&
	       numbers * 4 + (uint64_t)index->slots * 12 <= cursor_left(&in);
}

/* The row of an id, counted from 1; 0 when it is not there. */
static uint32_t find_row(const struct dwarf *dwarf, const struct package_index *index, uint64_t id)
{
	const uint32_t mask = index->slots - 1;
	uint32_t slot = (uint32_t)id & mask;
	const uint32_t step = ((uint32_t)(id >> 32) & mask) | 1;

	for (uint32_t i = 0; i < index->slots && dwarf_spend(dwarf, 1);
		i++, slot = (slot + step) & mask) {
		struct cursor in = index->table;
		cursor_skip(&in, (uint64_t)slot * 8);
		const uint64_t found = cursor_u64(&in);
		in = index->table;
		cursor_skip(&in, (uint64_t)index->slots * 8 + (uint64_t)slot * 4);
		const uint32_t row = cursor_u32(&in);
		if (row == 0)
			return 0;
		if (found == id)
			return row <= index->rows ? row : 0;
	}
	return 0;
}

/* Where a row's part of a section begins; 0 when the package has no such column. */
static uint64_t part_start(const struct package_index *index, uint32_t row, uint32_t column)
{
	struct cursor names = index->table;
	struct cursor in = index->table;

	cursor_skip(&names, (uint64_t)index->slots * 12);
	for (uint32_t i = 0; i < index->columns; i++) {
		if (cursor_u32(&names) != column)
			continue;
		cursor_skip(&in,
			(uint64_t)index->slots * 12 + ((uint64_t)row * index->columns + i) * 4);
		return cursor_u32(&in);
	}
	return 0;
}

static struct dwarf_unit *find_in_package(struct dwarf_split_file *package, uint64_t id)
{
	struct package_index index;

	if (!read_index(&package->image, &index))
		return NULL;
	const uint32_t row = find_row(&package->dwarf, &index, id);
	if (row == 0)
		return NULL;
	const uint64_t offset = part_start(&index, row, DW_SECT_INFO);
	for (size_t i = 0; i < package->dwarf.unit_count && dwarf_spend(&package->dwarf, 1); i++) {
		struct dwarf_unit *const unit = &package->dwarf.units[i];
		if (unit->offset != offset)
			continue;
		if (unit->skeleton == NULL && !atomic_load(&unit->has_root)) {
			unit->abbrev_offset += part_start(&index, row, DW_SECT_ABBREV);
			unit->str_offsets_start = part_start(&index, row, DW_SECT_STR_OFFSETS);
			unit->rnglists_start =
				index.version == 5 ? part_start(&index, row, DW_SECT_RNGLISTS) : 0;
		}
		return unit;
	}
	return NULL;
}

static struct dwarf_split_file *find_package(struct dwarf_splits *splits, const char *debug_path)
{
	if (!splits->looked_for_package) {
		splits->looked_for_package = true;
		CLEANUP(free_cleanup) char *beside = xasprintf("%s.dwp", splits->program);
		CLEANUP(free_cleanup) char *beside_debug = xasprintf("%s.dwp", debug_path);
		splits->package = open_file(splits, beside, &splits->package_problem);
		if (splits->package == NULL)
			splits->package = open_file(splits, beside_debug, &splits->package_problem);
		if (splits->package != NULL)
			splits->package_problem = NULL;
	}
	return splits->package;
}

/* Looks for a .dwo where it was compiled, then beside the program. */
static struct dwarf_unit *find_in_object(struct dwarf_splits *splits, struct dwarf_unit *skeleton,
	const char *name, const char **problem)
{
	const struct dwarf_root *const root = dwarf_unit_root(skeleton);
	const char *const directory = dwarf_value_text(skeleton, &root->directory);
	CLEANUP(buffer_deinit) struct buffer place = BUFFER_OR_EXIT;
	CLEANUP(free_cleanup)
	char *inside = name[0] == '/' ? xstrdup(name) : xasprintf("%s/%s", directory, name);
	struct dwarf_split_file *file = NULL;

	for (unsigned which = 0;
		file == NULL && file_search_place(splits->search, inside, which, &place); which++)
		file = open_file(splits, buffer_string(&place), problem);
	if (file == NULL) {
		const int size = (int)(path_base_name(splits->program) - splits->program);
		CLEANUP(free_cleanup)
		char *beside = xasprintf("%.*s%s", size, splits->program, path_base_name(name));
		file = open_file(splits, beside, problem);
	}
	if (file == NULL)
		return NULL;
	struct dwarf_unit *const unit = unit_by_id(&file->dwarf, skeleton->id);
	if (unit == NULL)
		note_lack(file, "is of another build", problem);
	return unit;
}

struct dwarf_unit *dwarf_splits_find(struct dwarf_splits *splits, struct dwarf_unit *skeleton)
{
	const struct dwarf_root *const root = dwarf_unit_root(skeleton);
	const char *const name = dwarf_value_text(skeleton, &root->split_name);
	struct dwarf_unit *unit = NULL;

	pthread_mutex_lock(&splits->lock);
	struct dwarf_split_file *const package = find_package(splits, skeleton->dwarf->path);
	const char *problem = splits->package_problem;
	if (package != NULL)
		unit = find_in_package(package, skeleton->id);
	if (unit == NULL)
		unit = find_in_object(splits, skeleton, name, &problem);
	/* What is wrong with the .dwo says more. */
	if (unit == NULL && package != NULL)
		note_lack(package, "is of another build or not complete", &problem);
	/* Two skeletons with one id: a damaged file. The first one has it. */
	if (unit != NULL && unit->skeleton != NULL && unit->skeleton != skeleton)
		unit = NULL;
	else if (unit != NULL)
		unit->skeleton = skeleton;
	else if (splits->problem == NULL)
		splits->problem =
			problem != NULL ? xstrdup(problem) : xasprintf("%s was not found", name);
	pthread_mutex_unlock(&splits->lock);
	return unit;
}
