/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call graph in graphviz's language, DOT. Boxes are nodes with their flat and cumulative values,
 * the font grows with the flat value as in jeprof; arrows are calls with what is allocated through
 * them; dashed arrows lead into inlined functions. In a difference growth is vermilion and
 * shrinkage bluish green, which differ for any colour vision. Any thread.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/xalloc.h"
#include "render/quantity.h"
#include "render/renderers.h"

#define ELLIPSIS "\xe2\x80\xa6"

enum {
	LINE_LENGTH = 32,    /* a name up to this stays on one line */
	BRACKET_LENGTH = 20, /* the longest argument list that is shown */
	MAX_LINE_BYTES = 64, /* of a longer piece both ends stay */
	LEGEND_SIZE = 18,    /* of its letters, in points */
};

static void append_character(
	struct buffer *out, const char *at, size_t length, const char *backslash)
{
	/* U+FFFE and U+FFFF are characters that XML, and so SVG, may not hold */
	if (length == 0 ||
		(length == 3 && memcmp(at, "\xef\xbf", 2) == 0 && (unsigned char)at[2] >= 0xbe))
		buffer_append_string(out, UTF8_REPLACEMENT);
	else if (*at == '"')
		buffer_append_string(out, "\\\"");
	else if (*at == '\\')
		buffer_append_string(out, backslash);
	else if (*at == '&')
		buffer_append_string(out, "&amp;");
	else if ((unsigned char)*at < 0x20 || *at == 0x7f)
		buffer_append_char(out, ' ');
	else
		buffer_append(out, at, length);
}

static void append_escaped(struct buffer *out, const char *text, size_t size, const char *backslash)
{
	const char *const end = text + size;

	while (text < end) {
		const size_t length = utf8_length(text, (size_t)(end - text));
		append_character(out, text, length, backslash);
		text += length == 0 ? 1 : length;
	}
}

/*
 * A text inside DOT's double quotes, on one line. It may hold anything: quotes, backslashes,
 * entities such as "&lt;" that graphviz would replace, bytes that are no UTF-8.
 */
static void append_text(struct buffer *out, const char *text, size_t size)
{
	append_escaped(out, text, size, "\\\\");
}

/* In a tooltip graphviz looks for escapes twice. */
static void append_twice_escaped(struct buffer *out, const char *text)
{
	append_escaped(out, text, strlen(text), "\\\\\\\\");
}

/* The bracket that closes the one at `open`, or NULL. "->" and operator< close nothing. */
static const char *find_closing(const char *open)
{
	size_t depth = 0;

	for (const char *at = open; *at != '\0'; at++) {
		if (*at == '<' || *at == '(')
			depth++;
		else if ((*at == '>' && at[-1] != '-') || *at == ')')
			depth--;
		if (depth == 0)
			return at;
	}
	return NULL;
}

/*
 * Whether a bracket at `at` encloses arguments: not in "operator<", "operator()", nor in names that
 * begin with it as "(anonymous namespace)" and Rust's "<T as Trait>" do.
 */
static bool encloses_arguments(const char *name, const char *at)
{
	static const char word[] = "operator";
	const size_t length = sizeof word - 1;

	if (at == name || at[-1] == ':' || at[-1] == ' ')
		return false;
	return (size_t)(at - name) < length || memcmp(at - length, word, length) != 0;
}

/* The name with long bracketed parts cut out. */
static void shorten(struct buffer *out, const char *name)
{
	for (const char *at = name; *at != '\0'; at++) {
		buffer_append_char(out, *at);
		if ((*at != '<' && *at != '(') || !encloses_arguments(name, at))
			continue;
		const char *const closing = find_closing(at);
		if (closing == NULL || closing - at <= BRACKET_LENGTH)
			continue;
		buffer_append_string(out, ELLIPSIS);
		at = closing - 1;
	}
}

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

static void append_line(struct buffer *out, const char *text, size_t size)
{
	size_t head = MAX_LINE_BYTES / 2, tail = MAX_LINE_BYTES / 2;

	if (size <= MAX_LINE_BYTES) {
		append_text(out, text, size);
		return;
	}
	while (is_continuation(text[head]))
		head--;
	while (tail > 0 && is_continuation(text[size - tail]))
		tail--;
	append_text(out, text, head);
	buffer_append_string(out, ELLIPSIS);
	append_text(out, text + size - tail, tail);
}

/* Where the piece that begins at `text` ends: after "::", before a space, outside brackets. */
static const char *find_piece_end(const char *text)
{
	size_t depth = 0;

	for (const char *at = text; *at != '\0'; at++) {
		if (*at == '<' || *at == '(')
			depth++;
		else if ((*at == '>' || *at == ')') && depth > 0)
			depth--;
		if (depth == 0 && *at == ' ' && at > text)
			return at;
		if (depth == 0 && at[0] == ':' && at[1] == ':' && at[2] != '\0')
			return at + 2;
	}
	return text + strlen(text);
}

void dot_append_name(struct buffer *out, const char *name)
{
	CLEANUP(buffer_deinit) struct buffer cut = BUFFER_OR_EXIT;

	shorten(&cut, name);
	const char *line = buffer_string(&cut), *at = line;

	if (strlen(line) <= LINE_LENGTH) {
		append_text(out, line, strlen(line));
		return;
	}
	while (*at != '\0') {
		const char *const piece = find_piece_end(at);
		if (at > line && piece - line > LINE_LENGTH) {
			append_line(out, line, (size_t)(at - line));
			buffer_append_string(out, "\\n");
			line = at + (*at == ' ');
		}
		at = piece;
	}
	append_line(out, line, (size_t)(at - line));
}

/* Half of a 95% interval, in standard errors. */
#define INTERVAL_95 1.96

struct colour {
	int red, green, blue;
};

/* From the palette of Okabe and Ito, and a paper white to mix with. */
static const struct colour paper = { 250, 250, 248 };
static const struct colour ink = { 88, 96, 105 };
static const struct colour heat = { 240, 150, 60 };
static const struct colour grown = { 213, 94, 0 };
static const struct colour shrunk = { 0, 158, 115 };

/* What every part of the picture needs. */
struct drawing {
	const struct view *view;
	const struct graph *graph;
	const struct render_options *options;
	struct buffer *out;
	double total;	    /* of everything that was read */
	double local_total; /* of what filters left */
};

static double share(const struct drawing *drawing, double value)
{
	return drawing->graph->whole > 0 ? value / drawing->graph->whole : 0;
}

static double limited_share(const struct drawing *drawing, double value)
{
	return fmin(1, fabs(share(drawing, value)));
}

static void append_colour(
	struct buffer *out, const char *key, struct colour from, struct colour to, double amount)
{
	buffer_printf(out, ",%s=\"#%02x%02x%02x\"", key,
		(int)lround(from.red + amount * (to.red - from.red)),
		(int)lround(from.green + amount * (to.green - from.green)),
		(int)lround(from.blue + amount * (to.blue - from.blue)));
}

/* The hue of a value: heat in a profile, the direction of change in a difference. */
static struct colour hue_of(const struct drawing *drawing, double value)
{
	if (!drawing->view->is_difference)
		return heat;
	return value < 0 ? shrunk : grown;
}

static struct quantity_text text_of(const struct drawing *drawing, double value)
{
	return quantity_format_in_unit(
		drawing->view, drawing->options, value, drawing->view->is_difference);
}

/* "1.5 MiB (12.0%)" */
static void append_share(const struct drawing *drawing, double value)
{
	buffer_printf(drawing->out, "%s (%.1f%%)", text_of(drawing, value).text,
		100 * share(drawing, value));
}

static void append_interval(const struct drawing *drawing, struct estimate estimate)
{
	const double half = INTERVAL_95 * sqrt(estimate.variance);

	if (half > 0 && !drawing->view->lacks_errors)
		buffer_printf(drawing->out, " \xc2\xb1 %s",
			quantity_format_in_unit(drawing->view, drawing->options, half, false).text);
}

static void append_estimate(
	const struct drawing *drawing, const char *word, struct estimate estimate)
{
	buffer_append_string(drawing->out, word);
	append_share(drawing, estimate.value);
	if (drawing->options->confidence)
		append_interval(drawing, estimate);
}

static void append_tooltip(const struct drawing *drawing, const struct graph_node *box)
{
	const struct view_node *const node = &drawing->view->nodes[box->node];
	struct buffer *const out = drawing->out;

	buffer_append_string(out, ",tooltip=\"");
	append_twice_escaped(out, node->name);
	if (node->file[0] != '\0' && strstr(node->name, node->file) == NULL) {
		buffer_append_string(out, "\\n");
		append_twice_escaped(out, node->file);
		if (node->line != 0)
			buffer_printf(out, ":%u", node->line);
	}
	if (node->module[0] != '\0') {
		buffer_append_string(out, "\\nin ");
		append_twice_escaped(out, node->module);
	}
	buffer_append_string(out, "\\nitself ");
	append_share(drawing, box->flat.value);
	append_interval(drawing, box->flat);
	buffer_append_string(out, "\\nwith all it calls ");
	append_share(drawing, box->cumulative.value);
	append_interval(drawing, box->cumulative);
	buffer_append_char(out, '"');
}

/*
 * How much of its hue a part of the picture shows. In a difference a little of it is there from
 * the first byte on: which way it went matters more than how far.
 */
static double tint_of(const struct drawing *drawing, double value)
{
	const double part = sqrt(limited_share(drawing, value));

	return drawing->view->is_difference && value != 0 ? 0.3 + 0.7 * part : part;
}

static void append_style(const struct drawing *drawing, double flat, double cumulative)
{
	struct buffer *const out = drawing->out;

	if (drawing->options->heapcheck && flat > 0)
		buffer_append_string(out, ",fillcolor=gray");
	else if (drawing->view->is_difference && flat == 0)
		append_colour(out, "fillcolor", paper, hue_of(drawing, cumulative),
			0.35 * tint_of(drawing, cumulative));
	else
		append_colour(
			out, "fillcolor", paper, hue_of(drawing, flat), tint_of(drawing, flat));
	if (drawing->options->heapcheck && flat < 0)
		buffer_append_string(out, ",peripheries=3");
	append_colour(out, "color", ink, hue_of(drawing, cumulative), tint_of(drawing, cumulative));
}

/*
 * graphviz lays texts out by the metrics of Helvetica; where the viewer has none, another font
 * takes its place, and DejaVu Sans and Verdana are wider by an eighth to a fifth. So the margin at
 * each side, in inches, grows with the widest line.
 */
static double margin_of(const char *label, double font_size)
{
	static const double min_margin = 0.11, wider = 0.1, mean_character = 0.55, inch = 72;
	size_t width = 0, widest = 0;

	for (const char *at = label; *at != '\0'; at++) {
		const bool is_line_end = *at == '\\' && (at[1] == 'n' || at[1] == 'l');
		if (*at == '\\' && at[1] != '\0')
			at++;
		width = is_line_end ? 0 : width + !is_continuation(*at);
		if (width > widest)
			widest = width;
	}
	return min_margin + wider * mean_character * font_size * (double)widest / inch;
}

static void append_node(const struct drawing *drawing, size_t i)
{
	const struct graph_node *const box = &drawing->graph->nodes[i];
	const double flat = box->flat.value, cumulative = box->cumulative.value;
	const double font_size = 8 + 50 * sqrt(limited_share(drawing, flat));
	struct buffer *const out = drawing->out;

	buffer_printf(out, "N%zu [label=\"", i + 1);
	const size_t label = out->size;
	dot_append_name(out, drawing->view->nodes[box->node].name);
	if (flat == 0 && cumulative != 0) {
		append_estimate(drawing, "\\n0 of ", box->cumulative);
	} else {
		append_estimate(drawing, "\\n", box->flat);
		if (flat != cumulative)
			append_estimate(drawing, "\\nof ", box->cumulative);
	}
	const double margin = margin_of(buffer_string(out) + label, font_size);
	buffer_printf(out, "\",fontsize=%.1f,margin=\"%.2f,0.055\"", font_size, margin);
	append_style(drawing, flat, cumulative);
	append_tooltip(drawing, box);
	buffer_append_string(out, "];\n");
}

static void append_edge(const struct drawing *drawing, const struct graph_edge *edge)
{
	const struct graph_node *const nodes = drawing->graph->nodes;
	const struct view_node *const names = drawing->view->nodes;
	const char *const from = names[nodes[edge->from].node].name;
	const char *const to = names[nodes[edge->to].node].name;
	const bool is_inlined = names[nodes[edge->to].node].is_inlined;
	const double part = limited_share(drawing, edge->weight.value);
	struct buffer *const out = drawing->out;

	/* The layout multiplies weights: bounded, they cannot overflow there. */
	buffer_printf(out, "N%u -> N%u [label=\"  %s\",weight=%d,penwidth=%.2f,style=%s",
		edge->from + 1, edge->to + 1, text_of(drawing, edge->weight.value).text,
		1 + (int)lround(100 * part), 1 + 4 * part, is_inlined ? "dashed" : "solid");
	append_colour(out, "color", ink, hue_of(drawing, edge->weight.value),
		tint_of(drawing, edge->weight.value));
	buffer_append_string(out, ",tooltip=\"");
	append_twice_escaped(out, from);
	buffer_append_string(out, " -> ");
	append_twice_escaped(out, to);
	buffer_append_string(out, "\\n");
	append_share(drawing, edge->weight.value);
	if (is_inlined)
		buffer_append_string(out, "\\ninlined");
	buffer_append_string(out, "\"];\n");
}

static void append_legend_line(struct buffer *out, const char *text)
{
	if (text == NULL || text[0] == '\0')
		return;
	append_text(out, text, strlen(text));
	buffer_append_string(out, "\\l");
}

/* A line for each clause, or the legend would be wider than the graph. */
static void append_clauses(struct buffer *out, const char *text)
{
	char line[128];

	while (*text != '\0') {
		const char *const comma = strstr(text, ", ");
		const size_t length = comma == NULL ? strlen(text) : (size_t)(comma - text) + 1;
		snprintf(line, sizeof line, "%.*s", (int)length, text);
		append_legend_line(out, line);
		text += length + (comma != NULL);
	}
}

static void append_left_out(const struct drawing *drawing)
{
	const struct graph *const graph = drawing->graph;
	struct buffer *const out = drawing->out;

	if (graph->dropped_nodes > 0)
		buffer_printf(out, "Left out: %zu of %zu nodes", graph->dropped_nodes,
			graph->dropped_nodes + graph->node_count);
	/* All of them for their size, and none for being too many. */
	if (graph->dropped_nodes > 0 && graph->node_count < drawing->options->graph.node_count)
		buffer_printf(out, " (up to %s each)",
			quantity_format_in_unit(
				drawing->view, drawing->options, graph->node_limit, false)
				.text);
	if (graph->dropped_nodes > 0)
		buffer_append_string(out, "\\l");
	if (graph->dropped_edges > 0)
		buffer_printf(out, "Left out: %zu of %zu edges between them\\l",
			graph->dropped_edges, graph->dropped_edges + graph->edge_count);
}

static void append_legend(const struct drawing *drawing)
{
	const struct graph *const graph = drawing->graph;
	const struct view *const view = drawing->view;
	struct buffer *const out = drawing->out;

	const struct quantity_text total = text_of(drawing, drawing->total);
	const struct quantity_text focus = text_of(drawing, drawing->local_total);
	buffer_printf(out, "Legend [shape=plaintext,style=\"\",fontsize=%d,label=\"", LEGEND_SIZE);
	const size_t label = out->size;
	append_legend_line(out, view->title);
	append_legend_line(out, view->subtitle);
	append_clauses(out, view->sampling);
	buffer_printf(out, "Total %s: %s\\l", quantity_label(view, view->counter), total.text);
	if (strcmp(total.text, focus.text) != 0)
		buffer_printf(out, "Focusing on: %s\\l", focus.text);
	append_left_out(drawing);
	if (drawing->options->confidence)
		buffer_append_string(out, view->lacks_errors
						  ? "Errors are not known\\l"
						  : "\xc2\xb1 half of the 95% interval\\l");
	if (view->is_difference)
		buffer_append_string(
			out, "Orange grew, green shrank; shares are of all changes\\l");
	if (graph->node_count == 0)
		buffer_append_string(out, "No nodes to show\\l");
	const double margin = margin_of(buffer_string(out) + label, LEGEND_SIZE);
	buffer_printf(out, "\",margin=\"%.2f,0.055\"];\n", margin);
}

static void append_header(const struct drawing *drawing)
{
	const char *const title = drawing->view->title;
	struct buffer *const out = drawing->out;

	buffer_append_string(out, "digraph \"");
	append_text(out, title, strlen(title));
	buffer_printf(out, "; %s\" {\n", text_of(drawing, drawing->total).text);
	buffer_append_string(out,
		"graph [fontname=\"Helvetica,Arial,sans-serif\",bgcolor=white,nodesep=0.3,"
		"ranksep=0.45];\n"
		"node [fontname=\"Helvetica,Arial,sans-serif\",shape=box,style=filled,"
		"width=0.375,height=0.25];\n"
		"edge [fontname=\"Helvetica,Arial,sans-serif\",fontsize=11,"
		"fontcolor=\"#404850\"];\n");
}

void dot_write(const struct view *view, const struct render_options *options, struct buffer *out)
{
	CLEANUP(graph_cleanup)
	struct graph *graph = graph_new(view, view->counter, &options->graph);
	const struct drawing drawing = {
		.view = view,
		.graph = graph,
		.options = options,
		.out = out,
		.total = view->total[view->counter] -
			 (view->is_difference ? view->base_total[view->counter] : 0),
		.local_total = view_sum(view, view->counter).value,
	};

	append_header(&drawing);
	append_legend(&drawing);
	for (size_t i = 0; i < graph->node_count; i++)
		append_node(&drawing, i);
	for (size_t i = 0; i < graph->edge_count; i++)
		append_edge(&drawing, &graph->edges[i]);
	buffer_append_string(out, "}\n");
}

bool render_dot(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	(void)err;
	dot_write(view, options, out);
	return true;
}
