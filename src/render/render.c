/* SPDX-License-Identifier: Apache-2.0 */
#include "render/renderers.h"

#include <string.h>

#define TABLE_ROW(name, function, extension, medium, is_of_nodes, ...)          \
	{                                                                       \
		(name), (extension), (medium), (is_of_nodes), render_##function \
	}

static const struct renderer renderers[] = {
	JEPROF_RENDERERS(TABLE_ROW),
	MORE_RENDERERS(TABLE_ROW),
	{ 0 },
};

const char *const render_sort_names[] = {
	[RENDER_SORT_FLAT] = "flat",
	[RENDER_SORT_CUMULATIVE] = "cum",
	[RENDER_SORT_CHANGE] = "change",
	[RENDER_SORT_NAME] = "name",
	NULL,
};

const struct renderer *renderer_find(const char *name)
{
	for (const struct renderer *r = renderers; r->name != NULL; r++) {
		if (strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}
