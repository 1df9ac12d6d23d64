/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/allocator_frames.h"
#include "analysis/filtered_profile.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "cli/disassembly.h"
#include "cli/code_listing.h"
#include "cli/viewer.h"
#include "profile/pprof.h"
#include "profile/symbolized.h"
#include "render/quantity.h"

bool report_output_emit(const struct report_options *options, const struct buffer *out,
	bool is_binary, struct error *err)
{
	if (options->output_path != NULL)
		return file_write(options->output_path, out->data, out->size, 0666, err);
	if (is_binary && isatty(STDOUT_FILENO)) {
		error_set(err, ERROR_USAGE, "this output is not for a terminal");
		return error_hint(err, "add -o FILE");
	}
	return file_write_fd(STDOUT_FILENO, "standard output", out->data, out->size, err);
}

static bool render_view(const struct report_session *session,
	const struct report_variation *variation, const struct render_options *render,
	struct buffer *out, struct error *err)
{
	const struct renderer *const renderer = session->options->renderer;
	struct report_variation wanted = *variation;
	CLEANUP(view_cleanup) struct view *view = NULL;

	wanted.totals_only = renderer->is_of_nodes;
	return report_session_view(session, &wanted, &view, err) &&
	       renderer->render(view, render, out, err);
}

static int by_id(const void *a, const void *b)
{
	const struct profile_thread *const *const left = a;
	const struct profile_thread *const *const right = b;

	return ((*left)->id > (*right)->id) - ((*left)->id < (*right)->id);
}

/* One report after the other, for each thread of the first profile. */
static bool render_threads(
	const struct report_session *session, struct buffer *out, struct error *err)
{
	const struct profile *const profile = session->profiles[0];
	struct report_variation variation = report_variation_none(session);
	struct render_options render = session->options->render;
	CLEANUP(free_cleanup)
	const struct profile_thread **threads = xcalloc(profile->thread_count, sizeof(void *));
	char label[32];

	if (profile->thread_count == 0)
		return error_set(
			err, ERROR_USAGE, "%s has no figures for single threads", profile->name);
	for (size_t i = 0; i < profile->thread_count; i++)
		threads[i] = &profile->threads[i];
	qsort(threads, profile->thread_count, sizeof(void *), by_id);
	for (size_t i = 0; i < profile->thread_count; i++) {
		snprintf(label, sizeof label, "t%" PRIu64, threads[i]->id);
		variation.thread = label;
		render.thread = label;
		if (!render_view(session, &variation, &render, out, err))
			return false;
	}
	return true;
}

static bool is_number(const char *text)
{
	return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static bool render(const struct report_session *session, struct buffer *out, struct error *err)
{
	const struct report_options *const options = session->options;
	const struct report_variation variation = report_variation_none(session);
	struct render_options render = options->render;
	CLEANUP(free_cleanup) char *label = NULL;

	if (options->filter.thread == NULL)
		return render_view(session, &variation, &render, out, err);
	if (strcmp(options->filter.thread, "*") == 0)
		return render_threads(session, out, err);
	label = xasprintf(
		"%s%s", is_number(options->filter.thread) ? "t" : "", options->filter.thread);
	render.thread = label;
	return render_view(session, &variation, &render, out, err);
}

static bool is_unfiltered(const struct report_options *options)
{
	const struct filter_text *const text = &options->filter;
	const char *const patterns[] = { text->focus, text->ignore, text->retain, text->exclude,
		text->show, text->hide };

	for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
		if (patterns[i] != NULL && patterns[i][0] != '\0')
			return false;
	}
	return text->tag_count == 0 && text->thread == NULL;
}

static bool select_all(const struct report_session *session, bool by_thread,
	enum stack_pruning pruning, struct profile **ret, struct error *err)
{
	const struct profile *const first = session->profiles[0];
	CLEANUP(filter_cleanup) struct filter *filter = NULL;
	CLEANUP(free_cleanup) struct view_input *inputs = report_session_inputs(session);

	if (!filter_new(&session->options->filter, &filter, err))
		return false;
	const struct filtered_profile_request request = {
		.filter = filter,
		/* Of a CPU profile we show samples, where pprof's readers look for time. */
		.counter = first->kind == PROFILE_CPU ? first->default_counter
						      : report_session_counter(session),
		.pruning = pruning,
		.by_thread = by_thread,
		.drop_negative = session->options->drop_negative,
	};
	return filtered_profile_make(inputs, session->profile_count, &request, ret, err);
}

/* A single unfiltered profile is written unchanged; anything else is assembled first. */
static bool write_raw(const struct report_session *session, struct buffer *out, struct error *err)
{
	CLEANUP(profile_cleanup) struct profile *selected = NULL;

	if (session->base_count != 0) {
		error_set(err, ERROR_USAGE, "--raw cannot hold a difference");
		return error_hint(err, "use --pprof or --json");
	}
	const enum profile_kind kind = session->profiles[0]->kind;
	if (kind != PROFILE_HEAP && kind != PROFILE_GROWTH) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s: only heap and growth profiles can be written as text",
			session->profiles[0]->name);
		return error_hint(err, "add --pprof instead of --raw");
	}
	if (session->profile_count == 1 && is_unfiltered(session->options))
		return symbolized_write(session->profiles[0], allocator_frame_has_module, out, err);
	return select_all(session, false, PRUNE_NOTHING, &selected, err) &&
	       symbolized_write(selected, allocator_frame_has_module, out, err);
}

static void add_times(const struct report_session *session, struct profile *profile)
{
	const struct report_options *const options = session->options;

	if (options->when_ms != NULL)
		profile->time_ms = strtoll(options->when_ms, NULL, 10);
	else if (profile->time_ms == 0)
		profile->time_ms =
			session->file_time_ms != 0 ? session->file_time_ms : clock_realtime_ms();
	if (options->span_ms != NULL)
		profile->duration_ms = strtoll(options->span_ms, NULL, 10);
	if (options->remark != NULL)
		profile_add_comment(profile, options->remark, strlen(options->remark));
}

static bool write_pprof(const struct report_session *session, struct buffer *out, struct error *err)
{
	CLEANUP(profile_cleanup) struct profile *selected = NULL;
	const struct pprof_write_options options = { 0 };

	if (!select_all(session, session->base_count == 0, report_options_pruning(session->options),
		    &selected, err))
		return false;
	add_times(session, selected);
	const size_t all_count = selected->sample_count;
	const size_t count = all_count + selected->thread_sample_count;
	CLEANUP(free_cleanup)
	struct profile_sample *samples = xreallocarray(NULL, count, sizeof *samples);
	for (size_t i = 0; i < count; i++)
		samples[i] = i < all_count ? selected->samples[i]
					   : selected->thread_samples[i - all_count];
	return pprof_write(selected, samples, count, &options, out, err);
}

bool report_output_show(const struct report_session *session, const struct view *view,
	const char *viewer, struct error *err)
{
	const struct renderer *const renderer = renderer_find(viewer_format(viewer));
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;

	if (!renderer->render(view, &session->options->render, &out, err))
		return false;
	return session->options->output == REPORT_INTERACTIVE
		       ? viewer_open_beside(
				 viewer, session->options->scale, &out, renderer->extension, err)
		       : viewer_open(
				 viewer, session->options->scale, &out, renderer->extension, err);
}

static bool show(const struct report_session *session, struct error *err)
{
	const struct report_variation variation = report_variation_none(session);
	CLEANUP(view_cleanup) struct view *view = NULL;

	return report_session_view(session, &variation, &view, err) &&
	       report_output_show(session, view, session->options->viewer, err);
}

/* Reports of all threads follow one another in one file: their format has to permit it. */
static bool check_all_threads(const struct report_options *options, struct error *err)
{
	if (options->filter.thread == NULL || strcmp(options->filter.thread, "*") != 0)
		return true;
	if (options->output == REPORT_RENDER && options->renderer->medium == RENDER_PLAIN)
		return true;
	error_set(err, ERROR_USAGE, "--thread='*' is for --text, --tree and --collapsed");
	if (options->output == REPORT_PPROF)
		return error_hint(err, "without --thread, --pprof labels samples with threads");
	return error_hint(err, "select one thread by its number or name");
}

bool report_output_write(const struct report_session *session, struct error *err)
{
	const struct report_options *const options = session->options;
	const struct report_variation variation = report_variation_none(session);
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;
	bool is_binary = false;
	bool done = false;

	if (!check_all_threads(options, err))
		return false;
	switch (options->output) {
	case REPORT_RENDER:
		is_binary = options->renderer->medium == RENDER_BINARY;
		done = render(session, &out, err);
		break;
	case REPORT_RAW:
		done = write_raw(session, &out, err);
		break;
	case REPORT_PPROF:
		is_binary = true;
		done = write_pprof(session, &out, err);
		break;
	case REPORT_LIST:
	case REPORT_WEBLIST:
	case REPORT_DISASM:
		done = report_output_annotate(
			session, &variation, options->output, options->routine, &out, err);
		break;
	case REPORT_VIEWER:
		return show(session, err);
	case REPORT_INTERACTIVE:
	case REPORT_SYMBOLS:
		break;
	}
	return done && report_output_emit(options, &out, is_binary, err);
}

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
	return value == 0 ? (struct jeprof_value){ "." }
			  : jeprof_value_format(
				    annotation->view, &annotation->session->options->render, value);
}

static void print_source_line(struct annotation *annotation, const struct code_file *source,
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
	CLEANUP(code_file_close) struct code_file source = { 0 };
	struct error ignored;

	for (size_t i = 0; i < disassembly->count;) {
		const struct instruction *const first = &disassembly->instructions[i];
		const size_t end = end_of_line(disassembly, i);
		if (first->file != file && first->file[0] != '\0') {
			file = first->file;
			code_file_close(&source);
			if (!code_file_open(
				    file, annotation->session->options->sysroot, &source, &ignored))
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
				sparse(annotation, sum.flat).text,
				sparse(annotation, sum.cumulative).text, at->start, at->text);
		}
	}
}

static bool print_disassembly(
	struct annotation *annotation, const struct routine *routine, struct error *err)
{
	const struct render_options *const options = &annotation->session->options->render;
	const struct routine_place sum = routine_sum(routine, routine->start, routine->limit);
	CLEANUP(disassembly_deinit) struct disassembly disassembly = { 0 };

	if (!disassembly_make(&disassembly, annotation->objdump, routine, err))
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
		return code_listing_write_html(annotation->session, annotation->view, &list,
			objdump, annotation->out, err);
	for (size_t i = 0; i < list.count; i++) {
		if (!print_disassembly(annotation, &list.routines[i], err))
			return false;
	}
	return true;
}

bool report_output_annotate(const struct report_session *session,
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
	code_listing_write(session, view, pattern, out, &any);
	return pattern_check(pattern, err) && (any || no_source(view, text, err));
}
