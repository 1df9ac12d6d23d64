/* SPDX-License-Identifier: Apache-2.0 */
#include "render/render.h"

#include <string.h>

#include "render/renderers.h"

const struct renderer renderers[] = {
	{ "text", "txt", "text/plain", "write one line for each function", false, render_text },
	{ "collapsed", "txt", "text/plain", "write one line for each stack, for flame graph tools",
		false, render_collapsed },
	{ "tree", "txt", "text/plain", "write the call tree as text", false, render_tree },
	{ "callgrind", "callgrind", "text/plain", "write callgrind's format, for KCachegrind",
		false, render_callgrind },
	{ "json", "json", "application/json", "write all figures with their errors", false,
		render_json },
	{ "dot", "dot", "text/vnd.graphviz", "write a call graph in graphviz's language", false,
		render_dot },
	{ "svg", "svg", "image/svg+xml", "draw a call graph as SVG, to move and zoom in a browser",
		false, render_svg },
	{ "ps", "ps", "application/postscript", "draw a call graph as PostScript", false,
		render_ps },
	{ "pdf", "pdf", "application/pdf", "draw a call graph as PDF", true, render_pdf },
	{ "gif", "gif", "image/gif", "draw a call graph as GIF", true, render_gif },
	{ "png", "png", "image/png", "draw a call graph as PNG", true, render_png },
	{ "flame", "html", "text/html; charset=utf-8",
		"draw a flame graph, one HTML file that works offline", false, render_flame },
	{ "flame-data", "json", "application/json",
		"write what a flame graph is drawn from, as JSON", false, render_flame_data },
	{ 0 },
};

const struct renderer *renderer_find(const char *name)
{
	for (const struct renderer *r = renderers; r->name != NULL; r++) {
		if (strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}
