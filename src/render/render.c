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

const struct renderer *renderer_find(const char *name)
{
	for (const struct renderer *r = renderers; r->name != NULL; r++) {
		if (strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}
