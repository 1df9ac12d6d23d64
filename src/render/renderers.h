/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renderers: each turns a view into one kind of output, appended to a buffer. A renderer decides
 * how figures look; the view has the figures.
 *
 * A new output is a function in a file render_NAME.c (plain text: render_text.c), and a row in one
 * of the lists below; the option of `heapctl report` comes from it, too. gateway/profile_render.c
 * lists what URLs may name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/graph.h"
#include "analysis/view.h"
#include "base/buffer.h"
#include "base/error.h"

enum render_sort {
	RENDER_SORT_FLAT,
	RENDER_SORT_CUMULATIVE,
	RENDER_SORT_CHANGE, /* by absolute flat value: largest first */
	RENDER_SORT_NAME,
};

/* As options and settings name them; NULL behind the last. */
extern const char *const render_sort_names[];

/* Of bytes and times in text reports and call graphs; counts have none. */
enum render_unit {
	RENDER_UNIT_DEFAULT, /* MB, or B with show_bytes and mean; seconds */
	RENDER_UNIT_AUTO,    /* the one that makes the total a short number */
	RENDER_UNIT_B,
	RENDER_UNIT_KB,
	RENDER_UNIT_MB,
	RENDER_UNIT_GB,
	RENDER_UNIT_TB,
	RENDER_UNIT_NS,
	RENDER_UNIT_US,
	RENDER_UNIT_MS,
	RENDER_UNIT_S,
};

struct render_options {
	enum render_sort sort;
	enum render_unit unit;
	size_t line_limit; /* rows of the text report; 0 for all */
	bool show_bytes;   /* bytes rather than MB */
	bool mean;	   /* of the text report: of one object, rather than the sum */
	bool confidence;   /* standard errors beside the figures */
	bool explain;	   /* say beside the figures what they mean */
	bool heapcheck;	   /* set off nodes that allocate themselves: jeprof's leak check */
	bool is_inverted;  /* trees and flame graphs from the leaves */
	size_t first_row;  /* of --rows; line_limit is how many */
	const char
		*row_pattern; /* of --rows: only those whose name or file matches; NULL for all */
	const char *thread;   /* for the total line: "t3"; NULL for all threads */
	size_t frame_limit;   /* frames of a flame graph: the largest; 0 for all */
	/*
	 * Where as many frames more are kept: "callees" or "callers" and the names from the root,
	 * one a line; NULL for nowhere.
	 */
	const char *frame_root;
	struct graph_limits graph;
};

/* All frames where a program reads them, and FRAME_LIMIT in a page, which a browser has to draw. */
#define FRAME_LIMIT_DEFAULT SIZE_MAX
enum { FRAME_LIMIT = 50000 };

#define RENDER_OPTIONS_DEFAULT    \
	((struct render_options){ \
		.graph = GRAPH_LIMITS_DEFAULT, .frame_limit = FRAME_LIMIT_DEFAULT })

typedef bool render_function(const struct view *view, const struct render_options *options,
	struct buffer *out, struct error *err);

enum render_medium {
	RENDER_PLAIN,  /* lines of text: several outputs may follow one another */
	RENDER_MARKUP, /* text in a format that allows one document in a file */
	RENDER_BINARY, /* not for a terminal */
};

/*
 * All renderers, jeprof's first: ROW(name, function, extension, medium, is_of_nodes, help, group).
 * The function is render_FUNCTION, the option --NAME; `group` heads the options from there on.
 */
/* clang-format off */
#define JEPROF_RENDERERS(ROW) \
	ROW("text", text, "txt", RENDER_PLAIN, true, "one line for each function [default]", "output"), \
	ROW("collapsed", collapsed, "txt", RENDER_PLAIN, false, "one line for each stack, for flame graph tools", NULL), \
	ROW("callgrind", callgrind, "callgrind", RENDER_MARKUP, false, "callgrind's format, for KCachegrind", NULL), \
	ROW("dot", dot, "dot", RENDER_MARKUP, false, "call graph in graphviz's language", NULL), \
	ROW("svg", svg, "svg", RENDER_MARKUP, false, "call graph as SVG", NULL), \
	ROW("ps", ps, "ps", RENDER_MARKUP, false, "call graph as PostScript", NULL), \
	ROW("pdf", pdf, "pdf", RENDER_BINARY, false, "call graph as PDF", NULL), \
	ROW("gif", gif, "gif", RENDER_BINARY, false, "call graph as GIF", NULL)
#define MORE_RENDERERS(ROW) \
	ROW("flame", flame, "html", RENDER_MARKUP, false, "flame graph, one HTML file", "more output"), \
	ROW("flame-data", flame_data, "json", RENDER_MARKUP, false, "what a flame graph is drawn from, for programs that draw it themselves", NULL), \
	ROW("json", json, "json", RENDER_MARKUP, false, "all figures with their errors, as JSON", NULL), \
	ROW("rows", rows, "json", RENDER_MARKUP, false, "functions and their figures in order, as JSON: --top of them from --first on", NULL), \
	ROW("tree", tree, "txt", RENDER_PLAIN, false, "call tree as text", NULL), \
	ROW("png", png, "png", RENDER_BINARY, false, "call graph as PNG", NULL)
/* clang-format on */

#define RENDER_FUNCTION(name, function, ...) render_##function
render_function JEPROF_RENDERERS(RENDER_FUNCTION), MORE_RENDERERS(RENDER_FUNCTION);
#undef RENDER_FUNCTION

struct renderer {
	const char *name;      /* of the option too: --NAME */
	const char *extension; /* of a file, without the dot */
	enum render_medium medium;
	bool is_of_nodes; /* looks at the nodes' totals only: see view_request.totals_only */
	render_function *render;
};

/* NULL when there is none of that name. */
const struct renderer *renderer_find(const char *name);

/* Parts of these, for one another and for tests. */

/* An empty graph still has its legend. */
void dot_write(const struct view *view, const struct render_options *options, struct buffer *out);

/*
 * A function's name as the label of a box: long argument lists and template arguments are cut
 * to "…", and what is still long is broken into lines at "::" and spaces. Short names stay.
 */
void dot_append_name(struct buffer *out, const char *name);

/*
 * Lays out the graph, a text in the DOT language, and appends the picture: "svg", "ps2", "pdf",
 * "gif", "png". ERROR_TIMEOUT when it took more than this number of seconds of processor time,
 * ERROR_UNSUPPORTED when the library or its part for the format is missing.
 */
MUST_CHECK bool graphviz_draw(const char *dot, const char *format, unsigned limit_s,
	struct buffer *out, struct error *err);
