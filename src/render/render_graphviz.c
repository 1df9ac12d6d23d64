/* SPDX-License-Identifier: Apache-2.0 */
#include "render/renderers.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "render/assets.h"
#include "render/dot.h"
#include "render/graphviz.h"

/*
 * The time for a layout grows much faster than the graph, and a reader is lost in a picture of a
 * thousand boxes: more are never laid out. A graph that takes longer than the limit is drawn with
 * half its nodes; the legend says how many were left out.
 */
enum { MAX_NODES = 1000, FEWEST_NODES = 50, LIMIT_S = 10 };

static bool draw(const struct view *view, const struct render_options *options, const char *format,
	struct buffer *out, struct error *err)
{
	struct render_options limited = *options;
	size_t *const nodes = &limited.graph.node_count;
	struct error failure;

	if (*nodes > MAX_NODES)
		*nodes = MAX_NODES;
	for (;; *nodes /= 2) {
		CLEANUP(buffer_deinit) struct buffer dot = { 0 };
		buffer_init(&dot, &memory_or_exit);
		dot_write(view, &limited, &dot);
		if (graphviz_draw(buffer_string(&dot), format, LIMIT_S, out, &failure))
			return true;
		if (failure.kind != ERROR_TIMEOUT || *nodes / 2 < FEWEST_NODES)
			break;
	}
	*err = failure;
	return false;
}

bool render_gif(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	return draw(view, options, "gif", out, err);
}

bool render_pdf(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	return draw(view, options, "pdf", out, err);
}

bool render_png(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	return draw(view, options, "png", out, err);
}

bool render_ps(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	return draw(view, options, "ps2", out, err);
}

/*
 * graphviz gives the picture a size in points and names a DTD on the net. Ours fills the window,
 * names nothing outside itself, and brings the script that moves it.
 */
bool render_svg(const struct view *view, const struct render_options *options, struct buffer *out,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer drawn = { 0 };

	buffer_init(&drawn, &memory_or_exit);
	if (!draw(view, options, "svg", &drawn, err))
		return false;
	const char *const text = buffer_string(&drawn);
	const char *const root = strstr(text, "<svg ");
	const char *const box = root == NULL ? NULL : strstr(root, " viewBox=");
	const char *const end = root == NULL ? NULL : strstr(root, "</svg>");
	if (box == NULL || end == NULL || box > end)
		return error_set(err, ERROR_UNSUPPORTED,
			"drawing the graph: graphviz made no SVG that we know");
	buffer_append_string(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
				  "<svg width=\"100%\" height=\"100%\"");
	buffer_append(out, box, (size_t)(end - box));
	buffer_printf(out, "<style><![CDATA[\n%s]]></style>\n", callgraph_style);
	buffer_printf(out, "<script><![CDATA[\n%s]]></script>\n", callgraph_script);
	buffer_append_string(out, end);
	return true;
}
