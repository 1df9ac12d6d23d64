/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/source_listing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "cli/disassembly.h"
#include "cli/source_file.h"
#include "cli/verb.h"
#include "render/jeprof_value.h"

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

static void append_escaped(struct buffer *out, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '&')
			buffer_append_string(out, "&amp;");
		else if (text[i] == '<')
			buffer_append_string(out, "&lt;");
		else if (text[i] == '>')
			buffer_append_string(out, "&gt;");
		else
			buffer_append_char(out, text[i]);
	}
}

static struct jeprof_value blank_or(const struct page *page, double value)
{
	static const struct jeprof_value nothing = { "" };

	return value == 0 ? nothing
			  : jeprof_value_format(page->view, &page->session->options->render, value);
}

static void sum_range(const struct routine *routine, const struct instruction *instruction,
	double *flat, double *cumulative)
{
	for (size_t i = 0; i < routine->count; i++) {
		const uint64_t vaddr = routine->places[i].vaddr;
		if (vaddr < instruction->start || vaddr >= instruction->limit)
			continue;
		*flat += routine->places[i].flat;
		*cumulative += routine->places[i].cumulative;
	}
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
	double flat = 0;
	double cumulative = 0;

	sum_range(routine, instruction, &flat, &cumulative);
	buffer_printf(page->out, "%8s %8s %10" PRIx64 ": ", blank_or(page, flat).text,
		blank_or(page, cumulative).text, instruction->start);
	append_escaped(page->out, instruction->text, strlen(instruction->text));
	if (strcmp(instruction->file, shown) != 0) {
		buffer_append_string(page->out, "   ; ");
		append_escaped(page->out, instruction->file, strlen(instruction->file));
		buffer_printf(page->out, ":%u", instruction->line);
	}
	buffer_append_char(page->out, '\n');
}

static void write_line(const struct page *page, const struct routine *routine,
	const struct disassembly *disassembly, const uint32_t *lines,
	const struct source_file *source, uint32_t line)
{
	double flat = 0;
	double cumulative = 0;
	size_t count = 0;

	for (size_t i = 0; i < disassembly->count; i++) {
		if (lines[i] != line)
			continue;
		sum_range(routine, &disassembly->instructions[i], &flat, &cumulative);
		count++;
	}
	buffer_printf(page->out, "<details><summary%s>%8s %8s %6u  ",
		cumulative != 0 ? " class=\"hot\"" : "", blank_or(page, flat).text,
		blank_or(page, cumulative).text, line);
	append_escaped(page->out, source->lines[line - 1], source->sizes[line - 1]);
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
	CLEANUP(source_file_close) struct source_file source = { 0 };
	const uint32_t first = first_line(routine, disassembly);
	CLEANUP(free_cleanup) uint32_t *lines = place_lines(routine, disassembly, first);
	uint32_t last = first;
	struct error err;

	buffer_append_string(page->out, "<h2>");
	append_escaped(page->out, routine->name, strlen(routine->name));
	buffer_append_string(page->out, "</h2><p>");
	append_escaped(page->out, routine->source, strlen(routine->source));
	buffer_append_string(page->out, "</p>\n");
	if (first != 0 &&
		!source_file_open(routine->source, page->session->options->sysroot, &source, &err))
		verb_warn("%s", err.message);
	if (source.count == 0) {
		write_bare_assembly(page, routine, disassembly);
		return;
	}
	for (size_t i = 0; i < disassembly->count; i++)
		last = lines[i] > last ? lines[i] : last;
	const size_t end = source_file_end_of(&source, first, last);
	for (size_t line = first; line <= end && line <= source.count; line++)
		write_line(page, routine, disassembly, lines, &source, (uint32_t)line);
}

bool source_listing_write_html(const struct report_session *session, const struct view *view,
	const struct routine_list *routines, const char *objdump, struct buffer *out,
	struct error *err)
{
	const struct page page = { session, view, out };

	buffer_append_string(out, page_head);
	buffer_append_string(out, "<h1>");
	append_escaped(out, view->title, strlen(view->title));
	buffer_printf(out, "</h1>\n<p>Total: %s %s. Columns: flat, cumulative, line.</p>\n",
		jeprof_value_format(view, &session->options->render, view->total[view->counter])
			.text,
		jeprof_value_unit(view, &session->options->render));
	for (size_t i = 0; i < routines->count; i++) {
		const struct routine *const routine = &routines->routines[i];
		CLEANUP(disassembly_deinit) struct disassembly disassembly = { 0 };
		if (!disassembly_make(&disassembly, objdump, routine->path, routine->start,
			    routine->limit, err))
			return false;
		write_routine(&page, routine, &disassembly);
	}
	buffer_append_string(out, "</body></html>\n");
	return true;
}
