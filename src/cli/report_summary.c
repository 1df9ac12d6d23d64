/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_summary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/unsample.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "cli/terminal.h"
#include "render/quantity.h"

enum { FUNCTIONS_SHOWN = 10 };

bool report_summary_is_wanted(const struct report_options *options)
{
	const struct render_options plain = RENDER_OPTIONS_DEFAULT, *const render =
									    &options->render;

	return isatty(STDOUT_FILENO) == 1 && !options->is_jeprof && !options->has_output &&
	       !options->has_output_path && options->base == NULL &&
	       options->filter.thread == NULL && !options->has_sort && render->sort == plain.sort &&
	       render->line_limit == plain.line_limit && !render->show_bytes &&
	       render->unit == plain.unit && !render->mean && !render->confidence &&
	       !render->is_inverted;
}

struct summary {
	const struct view *view;
	const struct view_totals *totals;
	uint32_t *nodes; /* with a figure, the largest flat one first */
	size_t count;
	double whole;
	enum quantity_style style;
};

static int by_flat(const void *a, const void *b, void *context)
{
	const struct summary *const summary = context;
	const struct view_totals *const left = &summary->totals[*(const uint32_t *)a];
	const struct view_totals *const right = &summary->totals[*(const uint32_t *)b];

	if (left->flat.value != right->flat.value)
		return left->flat.value < right->flat.value ? 1 : -1;
	return strcmp(summary->view->nodes[*(const uint32_t *)a].name,
		summary->view->nodes[*(const uint32_t *)b].name);
}

static void choose_nodes(struct summary *summary)
{
	summary->nodes = xcalloc(summary->view->node_count + 1, sizeof *summary->nodes);
	for (uint32_t i = 0; i < summary->view->node_count; i++) {
		if (summary->totals[i].flat.value > 0)
			summary->nodes[summary->count++] = i;
	}
	qsort_r(summary->nodes, summary->count, sizeof *summary->nodes, by_flat, summary);
}

static const char *format(const struct summary *summary, double value, struct quantity_text *text)
{
	*text = quantity_format(summary->style, value, false);
	return text->text;
}

/* "5.9 MiB space in use, between 5.6 MiB and 6.1 MiB (95%)" */
static void print_total(const struct summary *summary, FILE *out)
{
	const struct view *const view = summary->view;
	const struct estimate sum = view_sum(view, view->counter);
	struct quantity_text value, low, high;

	fprintf(out, "%s%s%s %s", terminal_begin(out, TERMINAL_BOLD),
		format(summary, sum.value, &value), terminal_end(out),
		quantity_label(view, view->counter));
	if (sum.variance > 0 && !view->lacks_errors) {
		const struct interval interval = estimate_interval(sum);
		fprintf(out, ", between %s and %s (95%%, %s samples)",
			format(summary, interval.low, &low), format(summary, interval.high, &high),
			quantity_format(QUANTITY_COUNT, sum.samples, false).text);
	}
	fputc('\n', out);
}

/* As much of the name as the line has room for. */
static void print_name(const char *name, int room, FILE *out)
{
	size_t size = 0;
	int used = 0;

	while (name[size] != '\0' && used < room) {
		const size_t next = utf8_length(name + size, strlen(name + size));
		size += next == 0 ? 1 : next;
		used++;
	}
	fprintf(out, "%.*s%s\n", (int)size, name, name[size] == '\0' ? "" : "\u2026");
}

static void print_functions(const struct summary *summary, FILE *out)
{
	enum { BEFORE_NAME = 2 + 10 + 2, SHARE = 6 + 2, CALLEES = 13 + 2, MIN_NAME = 24 };
	const int columns = terminal_columns(out) - BEFORE_NAME - 1;
	const bool has_share = columns >= SHARE + MIN_NAME;
	const bool has_callees = columns >= SHARE + CALLEES + MIN_NAME;
	const int room = columns - (has_share ? SHARE : 0) - (has_callees ? CALLEES : 0);
	struct quantity_text flat, cumulative;

	if (summary->count == 0)
		return;
	fprintf(out, "\n%s  %10s  ", terminal_begin(out, TERMINAL_DIM), "ITSELF");
	if (has_share)
		fprintf(out, "%6s  ", "SHARE");
	if (has_callees)
		fprintf(out, "%13s  ", "WITH CALLEES");
	fprintf(out, "FUNCTION%s\n", terminal_end(out));
	for (size_t i = 0; i < summary->count && i < FUNCTIONS_SHOWN; i++) {
		const struct view_totals *const totals = &summary->totals[summary->nodes[i]];
		fprintf(out, "  %10s  ", format(summary, totals->flat.value, &flat));
		if (has_share)
			fprintf(out, "%6s  ",
				jeprof_value_percent(totals->flat.value, summary->whole).text);
		if (has_callees)
			fprintf(out, "%13s  ",
				format(summary, totals->cumulative.value, &cumulative));
		print_name(summary->view->nodes[summary->nodes[i]].name, room, out);
	}
	if (summary->count > FUNCTIONS_SHOWN)
		fprintf(out, "%s  and %zu more: --text%s\n", terminal_begin(out, TERMINAL_DIM),
			summary->count - FUNCTIONS_SHOWN, terminal_end(out));
}

/* The operands as they were typed, in quotes where a shell would read them differently. */
static char *make_operands(const struct report_options *options)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_-+=:,./@%";
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	for (size_t i = 0; i < options->operand_count; i++) {
		const char *const operand = options->operands[i];
		const char *const quote = operand[strspn(operand, safe)] == '\0' ? "" : "'";
		if (strcmp(operand, "-") == 0 || strchr(operand, '\'') != NULL ||
			!utf8_is_printable(operand, strlen(operand)))
			return xstrdup("...");
		buffer_printf(&text, "%s%s%s%s", i == 0 ? "" : " ", quote, operand, quote);
	}
	return buffer_take(&text);
}

static void print_commands(const struct report_options *options, FILE *out)
{
	CLEANUP(free_cleanup) char *operands = make_operands(options);

	fprintf(out, "\nheapctl view %s\n", operands);
	fprintf(out, "%s  the flame graph in a web browser%s\n", terminal_begin(out, TERMINAL_DIM),
		terminal_end(out));
	fprintf(out, "heapctl report --tree %s\n", operands);
	fprintf(out, "%s  who calls them%s\n", terminal_begin(out, TERMINAL_DIM),
		terminal_end(out));
	fprintf(out, "heapctl report --interactive %s\n", operands);
	fprintf(out, "%s  a shell for more questions%s\n", terminal_begin(out, TERMINAL_DIM),
		terminal_end(out));
}

bool report_summary_print(const struct report_session *session, FILE *out, struct error *err)
{
	const struct report_variation variation = report_variation_none(session);
	CLEANUP(view_cleanup) struct view *view = NULL;

	if (!report_session_view(session, &variation, &view, err))
		return false;
	CLEANUP(free_cleanup) struct view_totals *totals = view_sum_nodes(view, view->counter);
	struct summary summary = {
		.view = view,
		.totals = totals,
		.whole = view_whole(view, view->counter),
		.style = quantity_style_of(view->kind, view->counter, false),
	};
	CLEANUP(free_cleanup) char *title = terminal_copy(view->title);
	CLEANUP(free_cleanup) char *subtitle = terminal_copy(view->subtitle);

	choose_nodes(&summary);
	fprintf(out, "%s%s%s: ", terminal_begin(out, TERMINAL_BOLD),
		title[0] == '\0' ? "heap profile" : title, terminal_end(out));
	print_total(&summary, out);
	fprintf(out, "%s%s%s\n", terminal_begin(out, TERMINAL_DIM), subtitle, terminal_end(out));
	print_functions(&summary, out);
	print_commands(session->options, out);
	free(summary.nodes);
	return true;
}
