/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/disassembly.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/function_name.h"
#include "base/buffer.h"
#include "base/search.h"
#include "base/xalloc.h"
#include "cli/code_file.h"
#include "render/quantity.h"
#include "symbol/elf_image.h"
#include "symbol/symbol_index.h"
#include "symbol/symbol_table.h"

/* The files of a module, opened once. Images that it lacks are empty. */
struct opened {
	const char *path; /* the process' */
	bool has_image;
	struct elf_image image, debug, mini;
	struct symbol_extent *functions; /* of an index of symbols in place of the debug file */
	size_t function_count;
};

enum { PAGE_BYTES = 4096 };

struct finder {
	struct routine_list *list;
	const struct report_session *session;
	struct opened *opened;
	size_t count, capacity;
};

static void read_index(struct opened *opened)
{
	CLEANUP(symbol_index_cleanup) struct symbol_index *index = NULL;
	struct work_budget budget;
	struct error ignored;

	work_budget_init(&budget);
	if (symbol_index_exists(&opened->debug) &&
		symbol_index_open(&opened->debug, &budget, &index, &ignored))
		opened->functions = symbol_index_functions(index, &opened->function_count);
}

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
		if (report->debug_file[0] != '\0')
			(void)!elf_image_open(report->debug_file, &opened->debug, &err);
		symbol_images_open_mini(&opened->image, &opened->mini);
		read_index(opened);
		return;
	}
}

static const struct opened *files_of(struct finder *finder, const char *path)
{
	for (size_t i = 0; i < finder->count; i++) {
		if (strcmp(finder->opened[i].path, path) == 0)
			return &finder->opened[i];
	}
	struct opened *const opened = XAPPEND(finder->opened, finder->count, finder->capacity);
	*opened = (struct opened){ .path = path };
	open_files(finder, opened);
	return opened;
}

static void finder_deinit(struct finder *finder)
{
	for (size_t i = 0; i < finder->count; i++) {
		elf_image_close(&finder->opened[i].image);
		elf_image_close(&finder->opened[i].debug);
		elf_image_close(&finder->opened[i].mini);
		free(finder->opened[i].functions);
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

/* Where the function begins and ends, from the files that its name can be from. */
static bool find_function(
	const struct opened *opened, uint64_t vaddr, struct symbol_extent *function)
{
	const struct symbol_images images = { &opened->image, &opened->debug, &opened->mini };
	struct symbol_match match = { 0 };

	(void)symbol_images_match(&images, &vaddr, 1, &match);
	if (match.name != NULL && match.size != 0) {
		*function = (struct symbol_extent){ match.start, match.start + match.size };
		return true;
	}
	const size_t count = search_count_up_to(opened->functions, opened->function_count,
		sizeof *opened->functions, offsetof(struct symbol_extent, start), vaddr);
	if (count == 0 || opened->functions[count - 1].limit <= vaddr)
		return false;
	*function = opened->functions[count - 1];
	return true;
}

/* The segment as a process maps it, in pages. */
static struct symbol_mapping code_of(
	struct routine_list *list, const struct opened *opened, const struct elf_segment *segment)
{
	const uint64_t before = segment->offset % PAGE_BYTES;
	const uint64_t bytes = before + segment->file_bytes;

	return (struct symbol_mapping){
		.start = segment->vaddr - before,
		.limit = segment->vaddr - before +
			 (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES,
		.file_offset = segment->offset - before,
		.path = string_pool_add(&list->strings, opened->path),
		.build_id = string_pool_add(&list->strings, opened->image.build_id),
		.file = string_pool_add(&list->strings, opened->image.path),
	};
}

static struct routine *find_routine(struct routine_list *list, const struct opened *opened,
	const struct elf_segment *segment, const struct symbol_extent *function)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->routines[i].start == function->start &&
			strcmp(list->routines[i].path, opened->image.path) == 0)
			return &list->routines[i];
	}
	struct routine *const routine = XAPPEND(list->routines, list->count, list->capacity);
	*routine = (struct routine){
		.name = "",
		.source = "",
		.build_id = "",
		.path = string_pool_add(&list->strings, opened->image.path),
		.start = function->start,
		.limit = function->limit,
		.code = code_of(list, opened, segment),
	};
	return routine;
}

static const char *short_name(struct routine_list *list, const char *function)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

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
	struct symbol_extent function;
	if (!find_function(opened, vaddr, &function))
		return;

	struct routine *const routine = find_routine(finder->list, opened, segment, &function);
	if (routine->name[0] == '\0')
		routine->name = short_name(finder->list, node->function);
	if (routine->source[0] == '\0' && node->file[0] != '\0') {
		routine->source = string_pool_add(&finder->list->strings, node->file);
		routine->start_line = node->start_line;
		routine->build_id = string_pool_add(&finder->list->strings, mapping->build_id);
	}
	*XAPPEND(routine->places, routine->count, routine->capacity) =
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
	CLEANUP(buffer_deinit) struct buffer scratch = BUFFER_OR_EXIT;

	*list = (struct routine_list){ 0 };
	string_pool_init(&list->strings);
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

struct routine_place routine_sum(const struct routine *routine, uint64_t start, uint64_t limit)
{
	struct routine_place sum = { 0 };

	for (size_t i = 0; i < routine->count; i++) {
		if (routine->places[i].vaddr < start || routine->places[i].vaddr >= limit)
			continue;
		sum.flat += routine->places[i].flat;
		sum.cumulative += routine->places[i].cumulative;
	}
	return sum;
}

/* "objdump:/opt/bin/objdump" among the items names the program; anything else is a prefix. */
static char *tool_of(const char *item, size_t size, const char *tool)
{
	const char *const colon = memchr(item, ':', size);
	const size_t tool_size = strlen(tool);

	if (colon != NULL)
		return (size_t)(colon - item) == tool_size && memcmp(item, tool, tool_size) == 0
			       ? xstrndup(colon + 1, size - tool_size - 1)
			       : NULL;
	CLEANUP(free_cleanup) char *path = xasprintf("%.*s%s", (int)size, item, tool);
	return access(path, X_OK) == 0 ? TAKE(path) : NULL;
}

char *disassembly_find_tool(const char *tool, const char *tools)
{
	if (tools == NULL || tools[0] == '\0')
		tools = getenv("JEPROF_TOOLS");
	while (tools != NULL && tools[0] != '\0') {
		const size_t size = strcspn(tools, ",");
		char *const path = size == 0 ? NULL : tool_of(tools, size, tool);
		if (path != NULL)
			return path;
		tools += size + (tools[size] == ',');
	}
	return xstrdup(tool);
}

/* Runs the program and reads what it prints. */
static bool read_output(const char *const *arguments, struct buffer *out, struct error *err)
{
	int ends[2];
	pid_t pid = 0;
	int status = 0;
	posix_spawn_file_actions_t actions;
	char *const *const argv = (char *const *)(uintptr_t)arguments;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return error_system(err, errno, "making a pipe");
	CLEANUP(fd_cleanup) const int from = ends[0];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	const int problem = posix_spawnp(&pid, arguments[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (problem != 0) {
		error_system(err, problem, "starting %s", arguments[0]);
		return error_hint(err, "install binutils, or name one with --tools");
	}
	const bool done = file_read_fd(from, arguments[0], out, err);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (done && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		return error_set(err, ERROR_SYSTEM, "%s failed", arguments[0]);
	return done;
}

struct objdump_reader {
	struct disassembly *disassembly;
	const char *file;
	uint32_t line;
	uint64_t limit;
};

/* "  1139:\tcall 1030 <malloc@plt>" */
static bool read_instruction(struct objdump_reader *reader, const char *line, size_t size)
{
	struct disassembly *const disassembly = reader->disassembly;
	char *after = NULL;
	const uint64_t start = strtoull(line, &after, 16);

	if (line[0] != ' ' || after == line || *after != ':')
		return false;
	after += 1 + strspn(after + 1, " \t");
	if (disassembly->count != 0)
		disassembly->instructions[disassembly->count - 1].limit = start;
	*XAPPEND(disassembly->instructions, disassembly->count, disassembly->capacity) =
		(struct instruction){
			.start = start,
			.limit = reader->limit,
			.text = string_pool_add_sized(
				&disassembly->strings, after, size - (size_t)(after - line)),
			.file = reader->file,
			.line = reader->line,
		};
	return true;
}

/* "/src/a.c:12" or "/src/a.c:12 (discriminator 3)" */
static void read_place(struct objdump_reader *reader, const char *line, size_t size)
{
	const char *const bracket = memmem(line, size, " (discriminator", 15);
	const size_t end = bracket == NULL ? size : (size_t)(bracket - line);
	size_t colon = end;

	while (colon > 0 && line[colon - 1] >= '0' && line[colon - 1] <= '9')
		colon--;
	if (colon < 2 || colon == end || line[colon - 1] != ':')
		return;
	reader->file = string_pool_add_sized(&reader->disassembly->strings, line, colon - 1);
	reader->line = (uint32_t)strtoul(line + colon, NULL, 10);
}

/* objdump knows neither an index of symbols nor the folders that debug files are searched in. */
static void find_lines(struct disassembly *disassembly, const struct report_session *session,
	const struct routine *routine)
{
	const size_t count = disassembly->count;
	CLEANUP(free_cleanup) uint64_t *addresses = xcalloc(count, sizeof *addresses);
	CLEANUP(free_cleanup) struct symbol_result *results = xcalloc(count, sizeof *results);

	for (size_t i = 0; i < count; i++) {
		if (disassembly->instructions[i].file[0] != '\0')
			return;
		addresses[i] = disassembly->instructions[i].start;
	}
	symbolizer_resolve(session->symbolizer, &routine->code, 1, addresses, NULL, count, results);
	for (size_t i = 0; i < count; i++) {
		if (results[i].frame_count == 0)
			continue;
		disassembly->instructions[i].file =
			string_pool_add(&disassembly->strings, results[i].frames[0].file);
		disassembly->instructions[i].line = results[i].frames[0].line;
	}
}

bool disassembly_make(struct disassembly *disassembly, const char *objdump,
	const struct report_session *session, const struct routine *routine, struct error *err)
{
	CLEANUP(free_cleanup) char *from = xasprintf("--start-address=0x%" PRIx64, routine->start);
	CLEANUP(free_cleanup) char *to = xasprintf("--stop-address=0x%" PRIx64, routine->limit);
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	const char *const disassemble = session->options->intel_syntax ? "-dMintel" : "-d";
	const char *const arguments[] = { objdump, "-C", disassemble, "-l", "--no-show-raw-insn",
		from, to, "--", routine->path, NULL };

	*disassembly = (struct disassembly){ 0 };
	string_pool_init(&disassembly->strings);
	struct objdump_reader reader = {
		.disassembly = disassembly, .file = "", .limit = routine->limit
	};
	if (!read_output(arguments, &text, err)) {
		disassembly_deinit(disassembly);
		return false;
	}
	for (const char *line = buffer_string(&text); *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		if (!read_instruction(&reader, line, size))
			read_place(&reader, line, size);
		line += size + (line[size] == '\n');
	}
	if (routine->source[0] != '\0')
		find_lines(disassembly, session, routine);
	return true;
}

void disassembly_deinit(struct disassembly *disassembly)
{
	free(disassembly->instructions);
	string_pool_deinit(&disassembly->strings);
	*disassembly = (struct disassembly){ 0 };
}

/* How the figures of assembly are written. */
struct annotation {
	const struct view *view;
	const struct render_options *options;
	struct source_place place;
	struct buffer *out;
};

static void print_source_line(const struct annotation *annotation, const struct code_file *source,
	struct routine_place sum, uint32_t line)
{
	if (line == 0 || line > source->count)
		return;
	const char *text = source->lines[line - 1];
	size_t size = source->sizes[line - 1];
	while (size > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		size--;
	}
	buffer_printf(annotation->out, "%6s %6s %5u: %.*s\n",
		jeprof_value_sparse(annotation->view, annotation->options, sum.flat).text,
		jeprof_value_sparse(annotation->view, annotation->options, sum.cumulative).text,
		line, (int)size, text);
}

/* Instructions from `first` on that come from one line: one past the last of them. */
static size_t end_of_line(const struct disassembly *disassembly, size_t first)
{
	const struct instruction *const instructions = disassembly->instructions;
	size_t end = first + 1;

	while (end < disassembly->count && instructions[end].line == instructions[first].line &&
		instructions[end].file == instructions[first].file)
		end++;
	return end;
}

static void print_instructions(const struct annotation *annotation, const struct routine *routine,
	const struct disassembly *disassembly)
{
	const char *file = "";
	CLEANUP(code_file_close) struct code_file source = { 0 };
	struct error ignored;

	for (size_t i = 0; i < disassembly->count;) {
		const struct instruction *const first = &disassembly->instructions[i];
		const size_t end = end_of_line(disassembly, i);
		if (first->file != file && first->file[0] != '\0') {
			file = first->file;
			code_file_close(&source);
			if (!code_file_open(file, &annotation->place, &source, &ignored))
				source = (struct code_file){ 0 };
			buffer_printf(annotation->out, "-------------------- %s\n", file);
		}
		print_source_line(annotation, &source,
			routine_sum(
				routine, first->start, disassembly->instructions[end - 1].limit),
			first->line);
		for (; i < end; i++) {
			const struct instruction *const at = &disassembly->instructions[i];
			const struct routine_place sum = routine_sum(routine, at->start, at->limit);
			buffer_printf(annotation->out, "%6s %6s    %8" PRIx64 ": %s\n",
				jeprof_value_sparse(annotation->view, annotation->options, sum.flat)
					.text,
				jeprof_value_sparse(
					annotation->view, annotation->options, sum.cumulative)
					.text,
				at->start, at->text);
		}
	}
}

bool routine_write_assembly(const struct routine *routine, const struct report_session *session,
	const struct view *view, const char *objdump, struct buffer *out, struct error *err)
{
	const struct render_options *const options = &session->options->render;
	const struct routine_place sum = routine_sum(routine, routine->start, routine->limit);
	const struct source_place place = source_place_of(session, routine->build_id);
	const struct annotation annotation = { view, options, place, out };
	CLEANUP(disassembly_deinit) struct disassembly disassembly = { 0 };

	if (!disassembly_make(&disassembly, objdump, session, routine, err))
		return false;
	buffer_printf(out,
		"ROUTINE ====================== %s\n%6s %6s %s (flat, cumulative) %s of total\n",
		routine->name, jeprof_value_format(view, options, sum.flat).text,
		jeprof_value_format(view, options, sum.cumulative).text,
		jeprof_value_unit(view, options),
		jeprof_value_percent(sum.cumulative, view_whole(view, view->counter)).text);
	print_instructions(&annotation, routine, &disassembly);
	return true;
}
