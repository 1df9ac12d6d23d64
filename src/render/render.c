/* SPDX-License-Identifier: Apache-2.0 */
#include "render/renderers.h"

#include <string.h>

static const struct renderer renderers[] = {
	{ "text", "txt", RENDER_PLAIN, true, render_text },
	{ "collapsed", "txt", RENDER_PLAIN, false, render_collapsed },
	{ "tree", "txt", RENDER_PLAIN, false, render_tree },
	{ "callgrind", "callgrind", RENDER_MARKUP, false, render_callgrind },
	{ "json", "json", RENDER_MARKUP, false, render_json },
	{ "dot", "dot", RENDER_MARKUP, false, render_dot },
	{ "svg", "svg", RENDER_MARKUP, false, render_svg },
	{ "ps", "ps", RENDER_MARKUP, false, render_ps },
	{ "pdf", "pdf", RENDER_BINARY, false, render_pdf },
	{ "gif", "gif", RENDER_BINARY, false, render_gif },
	{ "png", "png", RENDER_BINARY, false, render_png },
	{ "flame", "html", RENDER_MARKUP, false, render_flame },
	{ "flame-data", "json", RENDER_MARKUP, false, render_flame_data },
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
