/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/routine.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/function_name.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "symbol/elf_image.h"
#include "symbol/symbol_table.h"

/* The files of a module, opened once. */
struct opened {
	const char *path; /* the process' */
	bool has_image, has_debug;
	struct elf_image image, debug;
};

struct finder {
	struct routine_list *list;
	const struct report_session *session;
	struct opened *opened;
	size_t count, capacity;
};

static void open_files(struct finder *finder, struct opened *opened)
{
	size_t count = 0;
	const struct symbol_module_report *const reports =
		symbolizer_reports(finder->session->symbolizer, &count);
	struct error err;

	for (size_t i = 0; i < count; i++) {
		const struct symbol_module_report *const report = &reports[i];
		if (strcmp(report->path, opened->path) != 0 || report->file[0] == '\0')
			continue;
		opened->has_image = elf_image_open(report->file, &opened->image, &err);
		opened->has_debug = report->debug_file[0] != '\0' &&
				    elf_image_open(report->debug_file, &opened->debug, &err);
		return;
	}
}

static const struct opened *files_of(struct finder *finder, const char *path)
{
	for (size_t i = 0; i < finder->count; i++) {
		if (strcmp(finder->opened[i].path, path) == 0)
			return &finder->opened[i];
	}
	finder->opened =
		xgrow(finder->opened, &finder->capacity, finder->count + 1, sizeof *finder->opened);
	struct opened *const opened = &finder->opened[finder->count++];
	*opened = (struct opened){ .path = path };
	open_files(finder, opened);
	return opened;
}

static void finder_deinit(struct finder *finder)
{
	for (size_t i = 0; i < finder->count; i++) {
		if (finder->opened[i].has_image)
			elf_image_close(&finder->opened[i].image);
		if (finder->opened[i].has_debug)
			elf_image_close(&finder->opened[i].debug);
	}
	free(finder->opened);
}

/* The mapping of that address in whichever profile the node came from. */
static const struct profile_mapping *mapping_of(
	const struct report_session *session, const struct view_node *node)
{
	for (size_t i = 0; i < session->profile_count; i++) {
		const struct profile *const profile = session->profiles[i];
		const uint32_t at = profile_find_mapping(profile, node->address);
		if (at != PROFILE_NONE &&
			strcmp(path_base_name(profile->mappings[at].path), node->module) == 0)
			return &profile->mappings[at];
	}
	return NULL;
}

static struct symbol_match find_symbol(const struct opened *opened, uint64_t vaddr)
{
	struct symbol_match match = { 0 };

	symbol_table_match(&opened->image, ".symtab", &vaddr, 1, &match);
	if (opened->has_debug)
		symbol_table_match(&opened->debug, ".symtab", &vaddr, 1, &match);
	symbol_table_match(&opened->image, ".dynsym", &vaddr, 1, &match);
	return match;
}

static struct routine *find_routine(
	struct routine_list *list, const char *path, const struct symbol_match *match)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->routines[i].start == match->start &&
			strcmp(list->routines[i].path, path) == 0)
			return &list->routines[i];
	}
	list->routines =
		xgrow(list->routines, &list->capacity, list->count + 1, sizeof *list->routines);
	struct routine *const routine = &list->routines[list->count++];
	*routine = (struct routine){
		.name = "",
		.source = "",
		.path = string_pool_add(&list->strings, path),
		.start = match->start,
		.limit = match->start + match->size,
	};
	return routine;
}

static const char *short_name(struct routine_list *list, const char *function)
{
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };

	buffer_init(&text, &memory_or_exit);
	function_name_append_short(&text, function);
	return string_pool_add_sized(&list->strings, text.data, text.size);
}

static void add_node(
	struct finder *finder, const struct view_node *node, const struct view_totals *totals)
{
	const struct profile_mapping *const mapping = mapping_of(finder->session, node);
	if (mapping == NULL)
		return;
	const struct opened *const opened = files_of(finder, mapping->path);
	if (!opened->has_image)
		return;
	const uint64_t offset = node->address - mapping->start + mapping->file_offset;
	const struct elf_segment *const segment = elf_image_segment_at(&opened->image, offset);
	if (segment == NULL)
		return;
	const uint64_t vaddr = offset - segment->offset + segment->vaddr;
	const struct symbol_match match = find_symbol(opened, vaddr);
	if (match.name == NULL || match.size == 0)
		return;

	struct routine *const routine = find_routine(finder->list, opened->image.path, &match);
	if (routine->name[0] == '\0')
		routine->name = short_name(finder->list, node->function);
	if (routine->source[0] == '\0' && node->file[0] != '\0') {
		routine->source = string_pool_add(&finder->list->strings, node->file);
		routine->start_line = node->start_line;
	}
	routine->places = xgrow(
		routine->places, &routine->capacity, routine->count + 1, sizeof *routine->places);
	routine->places[routine->count++] =
		(struct routine_place){ vaddr, totals->flat.value, totals->cumulative.value };
}

static int by_name(const void *a, const void *b)
{
	const struct routine *const left = a;
	const struct routine *const right = b;
	const int order = strcmp(left->name, right->name);

	return order != 0 ? order : (left->start > right->start) - (left->start < right->start);
}

void routine_list_init(struct routine_list *list, const struct report_session *session,
	const struct view *view, struct pattern *pattern)
{
	CLEANUP(free_cleanup) struct view_totals *totals = view_sum_nodes(view, view->counter);
	CLEANUP(finder_deinit) struct finder finder = { .list = list, .session = session };
	CLEANUP(buffer_cleanup) struct buffer scratch = { 0 };

	*list = (struct routine_list){ 0 };
	string_pool_init(&list->strings);
	buffer_init(&scratch, &memory_or_exit);
	for (size_t i = 0; i < view->node_count; i++) {
		if (view->nodes[i].function[0] != '\0' &&
			filter_matches_function(pattern, &scratch, view->nodes[i].function))
			add_node(&finder, &view->nodes[i], &totals[i]);
	}
	if (list->count != 0)
		qsort(list->routines, list->count, sizeof *list->routines, by_name);
}

void routine_list_deinit(struct routine_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->routines[i].places);
	free(list->routines);
	string_pool_deinit(&list->strings);
	*list = (struct routine_list){ 0 };
}
