/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_annotation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "cli/disassembly.h"
#include "cli/routine.h"
#include "cli/source_file.h"
#include "cli/source_listing.h"
#include "render/jeprof_value.h"

struct annotation {
	const struct report_session *session;
	const struct view *view;
	struct buffer *out;
	const char *objdump;
	double whole;
};

/* "." for nothing, so that what there is stands out. */
static struct jeprof_value sparse(const struct annotation *annotation, double value)
{
	static const struct jeprof_value nothing = { "." };

	return value == 0 ? nothing
			  : jeprof_value_format(
				    annotation->view, &annotation->session->options->render, value);
}

static struct routine_place sum_places(
	const struct routine *routine, uint64_t start, uint64_t limit)
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

static void print_source_line(struct annotation *annotation, const struct source_file *source,
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
	buffer_printf(annotation->out, "%6s %6s %5u: %.*s\n", sparse(annotation, sum.flat).text,
		sparse(annotation, sum.cumulative).text, line, (int)size, text);
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

static void print_instructions(struct annotation *annotation, const struct routine *routine,
	const struct disassembly *disassembly)
{
	const char *file = "";
	CLEANUP(source_file_close) struct source_file source = { 0 };
	struct error ignored;

	for (size_t i = 0; i < disassembly->count;) {
		const struct instruction *const first = &disassembly->instructions[i];
		const size_t end = end_of_line(disassembly, i);
		if (first->file != file && first->file[0] != '\0') {
			file = first->file;
			source_file_close(&source);
			if (!source_file_open(
				    file, annotation->session->options->sysroot, &source, &ignored))
				source = (struct source_file){ 0 };
			buffer_printf(annotation->out, "-------------------- %s\n", file);
		}
		print_source_line(annotation, &source,
			sum_places(routine, first->start, disassembly->instructions[end - 1].limit),
			first->line);
		for (; i < end; i++) {
			const struct instruction *const at = &disassembly->instructions[i];
			const struct routine_place sum = sum_places(routine, at->start, at->limit);
			buffer_printf(annotation->out, "%6s %6s    %8" PRIx64 ": %s\n",
				sparse(annotation, sum.flat).text,
				sparse(annotation, sum.cumulative).text, at->start, at->text);
		}
	}
}

static bool print_disassembly(
	struct annotation *annotation, const struct routine *routine, struct error *err)
{
	const struct render_options *const options = &annotation->session->options->render;
	const struct routine_place sum = sum_places(routine, routine->start, routine->limit);
	CLEANUP(disassembly_deinit) struct disassembly disassembly = { 0 };

	if (!disassembly_make(&disassembly, annotation->objdump, routine->path, routine->start,
		    routine->limit, err))
		return false;
	buffer_printf(annotation->out,
		"ROUTINE ====================== %s\n%6s %6s %s (flat, cumulative) %s of total\n",
		routine->name, jeprof_value_format(annotation->view, options, sum.flat).text,
		jeprof_value_format(annotation->view, options, sum.cumulative).text,
		jeprof_value_unit(annotation->view, options),
		jeprof_value_percent(sum.cumulative, annotation->whole).text);
	print_instructions(annotation, routine, &disassembly);
	return true;
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
static bool no_source(const struct view *view, const char *pattern, struct error *err)
{
	if (view->node_count == 0 || has_lines(view))
		return no_match(pattern, err);
	error_set(err, ERROR_NOT_FOUND,
		"no function has source lines: the programs lack debug information");
	return error_hint(err, "use --disasm, which needs none, or install the debug files");
}

static bool annotate_assembly(struct annotation *annotation, enum report_output kind,
	const char *text, struct pattern *pattern, struct error *err)
{
	CLEANUP(routine_list_deinit) struct routine_list list = { 0 };
	CLEANUP(free_cleanup)
	char *objdump = disassembly_find_tool("objdump", annotation->session->options->tools);

	annotation->objdump = objdump;
	routine_list_init(&list, annotation->session, annotation->view, pattern);
	if (list.count == 0)
		return no_match(text, err);
	if (kind == REPORT_WEBLIST)
		return source_listing_write_html(annotation->session, annotation->view, &list,
			objdump, annotation->out, err);
	for (size_t i = 0; i < list.count; i++) {
		if (!print_disassembly(annotation, &list.routines[i], err))
			return false;
	}
	return true;
}

bool report_annotate(const struct report_session *session, const struct report_variation *variation,
	enum report_output kind, const char *text, struct buffer *out, struct error *err)
{
	struct report_variation by_address = *variation;
	CLEANUP(pattern_cleanup) struct pattern *pattern = NULL;
	CLEANUP(view_cleanup) struct view *view = NULL;

	by_address.granularity = kind == REPORT_LIST ? VIEW_LINES : VIEW_ADDRESSES;
	by_address.no_inlines = kind != REPORT_LIST;
	if (!pattern_new(text, &pattern, err) ||
		!report_session_view(session, &by_address, &view, err))
		return false;
	struct annotation annotation = {
		.session = session,
		.view = view,
		.out = out,
		.whole = view_whole(view, view->counter),
	};
	if (kind != REPORT_LIST)
		return annotate_assembly(&annotation, kind, text, pattern, err) &&
		       pattern_check(pattern, err);
	bool any = false;
	source_listing_write(session, view, pattern, out, &any);
	return pattern_check(pattern, err) && (any || no_source(view, text, err));
}
