/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/code_listing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/function_name.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "cli/code_file.h"
#include "cli/disassembly.h"
#include "cli/verb.h"
#include "render/quantity.h"

enum {
	/* A function that long is not one: the indentation misleads. */
	EXTRA_LINES_MAX = 400,
};

/* Of the first build of the module that a profile names. */
static const char *build_of(const struct report_session *session, const char *module)
{
	for (size_t i = 0; i < session->profile_count; i++) {
		const struct profile *const profile = session->profiles[i];
		for (size_t m = 0; m < profile->mapping_count; m++) {
			const struct profile_mapping *const mapping = &profile->mappings[m];
			if (mapping->build_id[0] != '\0' &&
				strcmp(path_base_name(mapping->path), module) == 0)
				return mapping->build_id;
		}
	}
	return "";
}

/* Columns before the first character; SIZE_MAX for an empty line. */
static size_t indentation(const struct code_file *file, size_t line)
{
	const char *const text = file->lines[line - 1];

	for (size_t i = 0; i < file->sizes[line - 1]; i++) {
		if (text[i] != ' ' && text[i] != '\t')
			return i;
	}
	return SIZE_MAX;
}

/*
 * Where a function ends that begins at `first` and has code at `last`, judged by indentation: the
 * line that closes it is no deeper than the first.
 */
static size_t end_of_function(const struct code_file *file, size_t first, size_t last)
{
	if (first == 0 || first > file->count)
		return last;
	const size_t depth = indentation(file, first);
	for (size_t line = last + 1; line <= file->count && line <= last + EXTRA_LINES_MAX;
		line++) {
		const size_t here = indentation(file, line);
		if (here != SIZE_MAX && here <= depth)
			/* A closing bracket belongs to the function, anything else is the next. */
			return file->lines[line - 1][here] == '}' ? line : line - 1;
	}
	return last;
}

/* Lines shown before and after a function. */
enum { CONTEXT_LINES = 5 };

/* A function in a file, and its nodes: one for each line with figures, ordered by line. */
struct listed {
	const char *function;
	const char *file;
	const char *module;
	uint32_t start_line;
	size_t first; /* in lister.order */
	size_t count;
	double cumulative; /* paths through any of the lines, each counted once */
};

struct lister {
	const struct report_session *session;
	const struct view *view;
	const struct view_totals *totals;
	struct buffer *out;
	uint32_t *order; /* nodes */
	size_t order_count;
	struct listed *functions;
	size_t count, capacity;
};

static int by_place(const void *a, const void *b, void *context)
{
	const struct view *const view = context;
	const struct view_node *const left = &view->nodes[*(const uint32_t *)a];
	const struct view_node *const right = &view->nodes[*(const uint32_t *)b];
	int order = strcmp(left->function, right->function);

	if (order == 0)
		order = strcmp(left->file, right->file);
	return order != 0 ? order : (left->line > right->line) - (left->line < right->line);
}

static void collect(struct lister *lister, struct pattern *pattern)
{
	const struct view *const view = lister->view;
	CLEANUP(buffer_deinit) struct buffer scratch = BUFFER_OR_EXIT;

	lister->order = xreallocarray(NULL, view->node_count, sizeof *lister->order);
	for (size_t i = 0; i < view->node_count; i++) {
		const struct view_node *const node = &view->nodes[i];
		if (node->function[0] != '\0' && node->file[0] != '\0' && node->line != 0 &&
			filter_matches_function(pattern, &scratch, node->function))
			lister->order[lister->order_count++] = (uint32_t)i;
	}
	qsort_r(lister->order, lister->order_count, sizeof *lister->order, by_place,
		(void *)(uintptr_t)view);
}

static void group(struct lister *lister)
{
	for (size_t i = 0; i < lister->order_count; i++) {
		const struct view_node *const node = &lister->view->nodes[lister->order[i]];
		struct listed *last =
			lister->count == 0 ? NULL : &lister->functions[lister->count - 1];
		if (last == NULL || last->function != node->function || last->file != node->file) {
			last = XAPPEND(lister->functions, lister->count, lister->capacity);
			*last = (struct listed){ node->function, node->file, node->module,
				node->start_line, i, 0, 0 };
		}
		last->count++;
	}
}

/* What goes through each function, whichever of its lines, counted once for each path. */
static void sum_functions(struct lister *lister)
{
	const struct view *const view = lister->view;
	CLEANUP(free_cleanup)
	uint32_t *group_of = xcalloc(view->node_count, sizeof *group_of);
	CLEANUP(free_cleanup) size_t *seen_by = xcalloc(lister->count + 1, sizeof *seen_by);

	for (size_t f = 0; f < lister->count; f++) {
		const struct listed *const function = &lister->functions[f];
		for (size_t i = 0; i < function->count; i++)
			group_of[lister->order[function->first + i]] = (uint32_t)(f + 1);
	}
	for (size_t p = 0; p < view->path_count; p++) {
		const struct view_path *const path = &view->paths[p];
		for (uint32_t at = 0; at < path->depth; at++) {
			const uint32_t g = group_of[view->path_nodes[path->first + at]];
			if (g == 0 || seen_by[g] == p + 1)
				continue;
			seen_by[g] = p + 1;
			lister->functions[g - 1].cumulative +=
				view_path_estimate(view, path, view->counter).value;
		}
	}
}

static uint32_t line_of(const struct lister *lister, size_t at)
{
	return lister->view->nodes[lister->order[at]].line;
}

/* Writes one line of source; nodes of the line begin at *at, which moves past them. */
static void write_line(struct lister *lister, const struct listed *function,
	const struct code_file *source, uint32_t line, size_t *at)
{
	double flat = 0;
	double cumulative = 0;

	for (; *at < function->first + function->count && line_of(lister, *at) == line; ++*at) {
		flat += lister->totals[lister->order[*at]].flat.value;
		cumulative += lister->totals[lister->order[*at]].cumulative.value;
	}
	buffer_printf(lister->out, "%6s %6s %4u: ",
		jeprof_value_sparse(lister->view, &lister->session->options->render, flat).text,
		jeprof_value_sparse(lister->view, &lister->session->options->render, cumulative)
			.text,
		line);
	if (line <= source->count)
		buffer_append(lister->out, source->lines[line - 1], source->sizes[line - 1]);
	buffer_append_char(lister->out, '\n');
}

static void write_header(struct lister *lister, const struct listed *function)
{
	const struct render_options *const options = &lister->session->options->render;
	double flat = 0;

	for (size_t i = 0; i < function->count; i++)
		flat += lister->totals[lister->order[function->first + i]].flat.value;
	buffer_append_string(lister->out, "ROUTINE ====================== ");
	function_name_append_short(lister->out, function->function);
	buffer_printf(lister->out, " in %s\n%6s %6s Total %s (flat / cumulative)\n", function->file,
		jeprof_value_format(lister->view, options, flat).text,
		jeprof_value_format(lister->view, options, function->cumulative).text,
		jeprof_value_unit(lister->view, options));
}

static void write_function(struct lister *lister, const struct listed *function)
{
	CLEANUP(code_file_close) struct code_file source = { 0 };
	const struct source_place place =
		source_place_of(lister->session, build_of(lister->session, function->module));
	struct error err;
	size_t at = function->first;
	const uint32_t lowest = line_of(lister, at);
	const uint32_t last = line_of(lister, at + function->count - 1);
	const uint32_t first = function->start_line != 0 && function->start_line <= lowest
				       ? function->start_line
				       : lowest;
	size_t end = last;

	if (code_file_open(function->file, &place, &source, &err))
		end = end_of_function(&source, first, last);
	else
		verb_fail(&err);
	write_header(lister, function);
	for (uint32_t line = first > CONTEXT_LINES ? first - CONTEXT_LINES : 1;
		line <= end + CONTEXT_LINES; line++) {
		if (source.count != 0 ? line > source.count
				      : (at == function->first + function->count ||
						line != line_of(lister, at)))
			continue;
		if (line == first)
			buffer_append_string(lister->out, "---\n");
		write_line(lister, function, &source, line, &at);
		if (line == end)
			buffer_append_string(lister->out, "---\n");
	}
}

/*
 * As text, from a view by lines, inlined functions too. A missing source file is reported on stderr
 * and its lines stay empty. Sets `any` when there was a function to list.
 */
static void write_source(const struct report_session *session, const struct view *view,
	struct pattern *pattern, struct buffer *out, bool *any)
{
	CLEANUP(free_cleanup) struct view_totals *totals = view_sum_nodes(view, view->counter);
	struct lister lister = { .session = session, .view = view, .totals = totals, .out = out };

	collect(&lister, pattern);
	group(&lister);
	sum_functions(&lister);
	for (size_t i = 0; i < lister.count; i++)
		write_function(&lister, &lister.functions[i]);
	*any = lister.count != 0;
	free(lister.order);
	free(lister.functions);
}

static const char page_head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>heapctl: source"
	"</title>\n<style>\n"
	"body { font-family: sans-serif; margin: 1em 2em }\n"
	"pre, summary { font-family: monospace; margin: 0; white-space: pre }\n"
	"summary { list-style: none; cursor: pointer }\n"
	"summary:hover { background: #8882 }\n"
	".hot { color: #0b5394; font-weight: bold }\n"
	".asm { color: #666; padding-left: 14em }\n"
	"@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd }\n"
	".hot { color: #8ab4f8 } .asm { color: #999 } }\n"
	"</style></head><body>\n";

struct page {
	const struct report_session *session;
	const struct view *view;
	struct buffer *out;
};

static struct jeprof_value blank_or(const struct page *page, double value)
{
	return value == 0 ? (struct jeprof_value){ "" }
			  : jeprof_value_format(page->view, &page->session->options->render, value);
}

/* Where the function begins; 0 when no line of it is known. */
static uint32_t first_line(const struct routine *routine, const struct disassembly *disassembly)
{
	uint32_t first = routine->start_line;

	for (size_t i = 0; routine->start_line == 0 && i < disassembly->count; i++) {
		const struct instruction *const at = &disassembly->instructions[i];
		if (at->line != 0 && strcmp(at->file, routine->source) == 0 &&
			(first == 0 || at->line < first))
			first = at->line;
	}
	return first;
}

/*
 * Which line of the routine's own file each instruction belongs to: code inlined from elsewhere
 * belongs to the line before it.
 */
static uint32_t *place_lines(
	const struct routine *routine, const struct disassembly *disassembly, uint32_t first)
{
	uint32_t *const lines = xcalloc(disassembly->count, sizeof *lines);
	uint32_t line = first;

	for (size_t i = 0; i < disassembly->count; i++) {
		const struct instruction *const at = &disassembly->instructions[i];
		if (strcmp(at->file, routine->source) == 0 && at->line >= first)
			line = at->line;
		lines[i] = line;
	}
	return lines;
}

/* Says the place too where it is not in `shown`, the file that stands beside it. */
static void write_assembly(const struct page *page, const struct routine *routine,
	const struct instruction *instruction, const char *shown)
{
	const struct routine_place sum =
		routine_sum(routine, instruction->start, instruction->limit);

	buffer_printf(page->out, "%8s %8s %10" PRIx64 ": ", blank_or(page, sum.flat).text,
		blank_or(page, sum.cumulative).text, instruction->start);
	utf8_append_markup(page->out, instruction->text, strlen(instruction->text));
	if (instruction->file[0] != '\0' && strcmp(instruction->file, shown) != 0) {
		buffer_append_string(page->out, "   ; ");
		utf8_append_markup(page->out, instruction->file, strlen(instruction->file));
		buffer_printf(page->out, ":%u", instruction->line);
	}
	buffer_append_char(page->out, '\n');
}

static void write_html_line(const struct page *page, const struct routine *routine,
	const struct disassembly *disassembly, const uint32_t *lines,
	const struct code_file *source, uint32_t line)
{
	double flat = 0;
	double cumulative = 0;
	size_t count = 0;

	for (size_t i = 0; i < disassembly->count; i++) {
		if (lines[i] != line)
			continue;
		const struct instruction *const at = &disassembly->instructions[i];
		const struct routine_place sum = routine_sum(routine, at->start, at->limit);
		flat += sum.flat;
		cumulative += sum.cumulative;
		count++;
	}
	buffer_printf(page->out, "<details><summary%s>%8s %8s %6u  ",
		cumulative != 0 ? " class=\"hot\"" : "", blank_or(page, flat).text,
		blank_or(page, cumulative).text, line);
	utf8_append_markup(page->out, source->lines[line - 1], source->sizes[line - 1]);
	buffer_append_string(page->out, "</summary>");
	if (count != 0) {
		buffer_append_string(page->out, "<pre class=\"asm\">");
		for (size_t i = 0; i < disassembly->count; i++) {
			if (lines[i] == line)
				write_assembly(page, routine, &disassembly->instructions[i],
					routine->source);
		}
		buffer_append_string(page->out, "</pre>");
	}
	buffer_append_string(page->out, "</details>\n");
}

/* All there is of a function without a source. */
static void write_bare_assembly(const struct page *page, const struct routine *routine,
	const struct disassembly *disassembly)
{
	buffer_append_string(page->out, "<pre class=\"asm\">");
	for (size_t i = 0; i < disassembly->count; i++)
		write_assembly(page, routine, &disassembly->instructions[i], "");
	buffer_append_string(page->out, "</pre>\n");
}

static void write_routine(const struct page *page, const struct routine *routine,
	const struct disassembly *disassembly)
{
	CLEANUP(code_file_close) struct code_file source = { 0 };
	const uint32_t first = first_line(routine, disassembly);
	CLEANUP(free_cleanup) uint32_t *lines = place_lines(routine, disassembly, first);
	const struct source_place place = source_place_of(page->session, routine->build_id);
	uint32_t last = first;
	struct error err;

	buffer_append_string(page->out, "<h2>");
	utf8_append_markup(page->out, routine->name, strlen(routine->name));
	buffer_append_string(page->out, "</h2><p>");
	utf8_append_markup(page->out, routine->source, strlen(routine->source));
	buffer_append_string(page->out, "</p>\n");
	if (first != 0 && !code_file_open(routine->source, &place, &source, &err))
		verb_fail(&err);
	if (source.count == 0) {
		write_bare_assembly(page, routine, disassembly);
		return;
	}
	for (size_t i = 0; i < disassembly->count; i++)
		last = lines[i] > last ? lines[i] : last;
	const size_t end = end_of_function(&source, first, last);
	for (size_t line = first; line <= end && line <= source.count; line++)
		write_html_line(page, routine, disassembly, lines, &source, (uint32_t)line);
}

/* As a page of HTML, with the assembly of a line behind a click. */
static bool write_page(const struct report_session *session, const struct view *view,
	const struct routine_list *routines, const char *objdump, struct buffer *out,
	struct error *err)
{
	const struct page page = { session, view, out };

	buffer_append_string(out, page_head);
	buffer_append_string(out, "<h1>");
	utf8_append_markup(out, view->title, strlen(view->title));
	buffer_printf(out, "</h1>\n<p>Total: %s %s. Columns: flat, cumulative, line.</p>\n",
		jeprof_value_format(view, &session->options->render, view->total[view->counter])
			.text,
		jeprof_value_unit(view, &session->options->render));
	for (size_t i = 0; i < routines->count; i++) {
		const struct routine *const routine = &routines->routines[i];
		CLEANUP(disassembly_deinit) struct disassembly disassembly = { 0 };
		if (!disassembly_make(&disassembly, objdump, session, routine, err))
			return false;
		write_routine(&page, routine, &disassembly);
	}
	buffer_append_string(out, "</body></html>\n");
	return true;
}

/* Whether a program, or library, of this name was read; of any name where it is NULL. */
static bool has_program(const struct report_session *session, const char *module)
{
	size_t count = 0;
	const struct symbol_module_report *const reports =
		symbolizer_reports(session->symbolizer, &count);

	for (size_t i = 0; i < count; i++) {
		if (reports[i].file[0] != '\0' &&
			(module == NULL || strcmp(path_base_name(reports[i].path), module) == 0))
			return true;
	}
	return false;
}

enum function_match {
	NO_FUNCTION,
	FUNCTIONS_BY_NAME, /* all of their names came with the profile */
	FUNCTIONS_OF_PROGRAMS,
};

static enum function_match match_functions(
	const struct report_session *session, const struct view *view, struct pattern *pattern)
{
	CLEANUP(buffer_deinit) struct buffer scratch = BUFFER_OR_EXIT;
	enum function_match found = NO_FUNCTION;

	for (size_t i = 0; i < view->node_count; i++) {
		const struct view_node *const node = &view->nodes[i];
		if (node->function[0] == '\0' ||
			!filter_matches_function(pattern, &scratch, node->function))
			continue;
		if (has_program(session, node->module))
			return FUNCTIONS_OF_PROGRAMS;
		found = FUNCTIONS_BY_NAME;
	}
	return found;
}

static bool no_address(const char *pattern, struct error *err)
{
	error_set(err, ERROR_NOT_FOUND,
		"the names that match '%.100s' came with the profile: no program was read for them",
		pattern);
	return error_hint(err, "give a profile with addresses and without names, as heapctl dump "
			       "writes it");
}

static bool no_match(const char *pattern, struct error *err)
{
	error_set(err, ERROR_NOT_FOUND,
		"no function with figures and known source or symbols matches '%.100s'", pattern);
	return error_hint(err, "--text lists the functions there are");
}

static bool has_lines(const struct view *view)
{
	for (size_t i = 0; i < view->node_count; i++) {
		if (view->nodes[i].line != 0)
			return true;
	}
	return false;
}

/* Without debug information there is no line to show, whatever the pattern is. */
static bool no_source(const struct report_session *session, const struct view *view,
	struct pattern *pattern, const char *text, struct error *err)
{
	const bool any_lines = has_lines(view);
	const bool may_have_lines = any_lines || !has_program(session, NULL);
	const enum function_match match = match_functions(session, view, pattern);

	if (view->node_count == 0 || (may_have_lines && match == NO_FUNCTION))
		return no_match(text, err);
	if (match == FUNCTIONS_BY_NAME)
		return no_address(text, err);
	if (any_lines)
		error_set(err, ERROR_NOT_FOUND,
			"no function that matches '%.100s' has source lines: its program lacks "
			"debug information",
			text);
	else
		error_set(err, ERROR_NOT_FOUND,
			"no function has source lines: the programs lack debug information");
	return error_hint(err, "use --disasm, which needs none, or install the debug files");
}

static bool only_functions(struct error *err)
{
	error_set(err, ERROR_NOT_FOUND,
		"only one side of the difference has lines or addresses: it is one of functions");
	return error_hint(err, "--text shows it, and --list or --disasm one profile");
}

static bool annotate_assembly(const struct report_session *session, const struct view *view,
	enum report_output kind, const char *text, struct pattern *pattern, struct buffer *out,
	struct error *err)
{
	CLEANUP(routine_list_deinit) struct routine_list list = { 0 };
	CLEANUP(free_cleanup)
	char *objdump = disassembly_find_tool("objdump", session->options->tools);

	routine_list_init(&list, session, view, pattern);
	if (list.count == 0)
		return match_functions(session, view, pattern) == FUNCTIONS_BY_NAME
			       ? no_address(text, err)
			       : no_match(text, err);
	if (kind == REPORT_WEBLIST)
		return write_page(session, view, &list, objdump, out, err);
	for (size_t i = 0; i < list.count; i++) {
		if (!routine_write_assembly(&list.routines[i], session, view, objdump, out, err))
			return false;
	}
	return true;
}

bool code_listing_annotate(const struct report_session *session,
	const struct report_variation *variation, enum report_output kind, const char *text,
	struct buffer *out, struct error *err)
{
	struct report_variation by_address = *variation;
	CLEANUP(pattern_cleanup) struct pattern *pattern = NULL;
	CLEANUP(view_cleanup) struct view *view = NULL;

	by_address.granularity = kind == REPORT_LIST ? VIEW_LINES : VIEW_ADDRESSES;
	by_address.no_inlines = kind != REPORT_LIST;
	if (!pattern_new(text, &pattern, err) ||
		!report_session_view(session, &by_address, &view, err))
		return false;
	if (view->granularity != by_address.granularity)
		return only_functions(err);
	if (kind != REPORT_LIST)
		return annotate_assembly(session, view, kind, text, pattern, out, err) &&
		       pattern_check(pattern, err);
	bool any = false;
	write_source(session, view, pattern, out, &any);
	return pattern_check(pattern, err) && (any || no_source(session, view, pattern, text, err));
}
