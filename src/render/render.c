/* SPDX-License-Identifier: Apache-2.0 */
#include "render/render.h"

#include <string.h>

#include "render/renderers.h"

static const struct renderer renderers[] = {
	{ "text", "txt", RENDER_PLAIN, render_text },
	{ "collapsed", "txt", RENDER_PLAIN, render_collapsed },
	{ "tree", "txt", RENDER_PLAIN, render_tree },
	{ "callgrind", "callgrind", RENDER_PLAIN, render_callgrind },
	{ "json", "json", RENDER_MARKUP, render_json },
	{ "dot", "dot", RENDER_MARKUP, render_dot },
	{ "svg", "svg", RENDER_MARKUP, render_svg },
	{ "ps", "ps", RENDER_MARKUP, render_ps },
	{ "pdf", "pdf", RENDER_BINARY, render_pdf },
	{ "gif", "gif", RENDER_BINARY, render_gif },
	{ "png", "png", RENDER_BINARY, render_png },
	{ "flame", "html", RENDER_MARKUP, render_flame },
	{ "flame-data", "json", RENDER_MARKUP, render_flame_data },
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
